#include "trainer/serve/model_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "trainer/base/clock.h"
#include "trainer/base/notification.h"
#include "trainer/base/status_macros.h"
#include "trainer/serve/quoted.h"

namespace trainyard::engine {
namespace {

// Shared by the request that waits and the model that answers: each may be the first to go.
constexpr absl::Duration kGiven = absl::Seconds(1);

struct Awaited {
  std::atomic<bool> decided = false;  // by the first of the two
  Notification answered;
  std::optional<absl::StatusOr<InferAnswer>> answer;  // before `answered`
};

}  // namespace

std::string ModelService::MetricsText() const {
  const VersionWatch::Counts counts = watch_.counts();
  ServeGauges gauges{.loaded = counts.loaded, .refused = counts.refused, .ready = ready()};
  if (const std::shared_ptr<ServedModel> model = watch_.current()) {
    gauges.version = model->version();
    gauges.queued = model->batcher().queued();
  }
  gauges.sequences = sequences_.live(RealClock().Now());
  return metrics_.Text(gauges);
}

absl::StatusOr<std::shared_ptr<ServedModel>> ModelService::Find(std::string_view name, std::string_view version) const {
  if (name != options_.name) {
    return absl::NotFoundError(fmt::format("model name: found {}, expected \"{}\"", InQuotes(name), options_.name));
  }
  std::shared_ptr<ServedModel> model = watch_.current();
  if (!model) return absl::UnavailableError(fmt::format("model \"{}\" has no version yet; try again later", options_.name));
  int64_t wanted = 0;
  if (version.empty() || (absl::SimpleAtoi(std::string(version), &wanted) && wanted == model->version())) return model;
  return absl::NotFoundError(
      fmt::format("model version: found {}, expected {}, the one that is served now, or none", InQuotes(version), model->version()));
}

absl::Duration ModelService::TimeoutOf(const InferRequest& request) const {
  return std::min(options_.timeout, request.timeout.value_or(options_.timeout));
}

absl::Status ModelService::Submit(ServedModel& model, const InferRequest& request, const Done& done) {
  if (request.sequence && !model.carries_state()) {
    return absl::InvalidArgumentError("parameters.sequence_id: found one, expected none: this model carries no state between requests");
  }
  TY_ASSIGN_OR_RETURN(ServedExamples examples, model.signature().ExamplesOf(request.inputs));
  const int64_t count = examples.count;
  const absl::Time now = RealClock().Now();
  const auto submit = [&](std::shared_ptr<CarriedRow> carried) {
    return model.batcher().Submit({.examples = std::move(examples),
                                   .deadline = now + TimeoutOf(request),
                                   .carried = std::move(carried),
                                   .done = [done, count, version = model.version()](absl::StatusOr<std::vector<float>> values) {
                                     if (!values.ok()) return done(values.status());
                                     return done(InferAnswer{.version = version, .examples = count, .values = *std::move(values)});
                                   }});
  };
  if (!request.sequence) return submit(nullptr);
  if (count != 1) {
    return absl::InvalidArgumentError(fmt::format("inputs: found {} examples, expected one in a request with a sequence_id", count));
  }
  return sequences_.Go(*request.sequence, model.identity(), now, submit);
}

void ModelService::Infer(ServedModel& model, const InferRequest& request, const Done& done) {
  const absl::Status submitted = Submit(model, request, done);
  if (!submitted.ok()) done(submitted);
}

absl::StatusOr<InferAnswer> ModelService::InferAndWait(ServedModel& model, const InferRequest& request) {
  const auto awaited = std::make_shared<Awaited>();
  Infer(model, request, [awaited](absl::StatusOr<InferAnswer> answer) {
    if (awaited->decided.exchange(true)) return false;
    awaited->answer = std::move(answer);
    awaited->answered.Notify();
    return true;
  });
  const bool answered = awaited->answered.WaitForNotificationWithTimeout(TimeoutOf(request));
  if (!answered && !awaited->decided.exchange(true)) {
    return absl::DeadlineExceededError(fmt::format("no answer within {}", absl::FormatDuration(TimeoutOf(request))));
  }
  while (!awaited->answered.WaitForNotificationWithTimeout(kGiven)) {  // the answer is being given
  }
  return *std::move(awaited->answer);
}

}  // namespace trainyard::engine
