#include "trainer/serve/model_service.h"

#include <fmt/format.h>

#include <algorithm>
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
struct Awaited {
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
  return metrics_.Text(gauges);
}

absl::StatusOr<std::shared_ptr<ServedModel>> ModelService::Find(std::string_view name, std::string_view version) const {
  if (name != options_.name) {
    return absl::NotFoundError(fmt::format("model name: found {}, expected \"{}\"", Quoted(name), options_.name));
  }
  std::shared_ptr<ServedModel> model = watch_.current();
  if (!model) return absl::UnavailableError(fmt::format("model \"{}\" has no version yet; try again later", options_.name));
  int64_t wanted = 0;
  if (version.empty() || (absl::SimpleAtoi(std::string(version), &wanted) && wanted == model->version())) return model;
  return absl::NotFoundError(
      fmt::format("model version: found {}, expected {}, the one that is served now, or none", Quoted(version), model->version()));
}

absl::Duration ModelService::TimeoutOf(const InferRequest& request) const {
  return std::min(options_.timeout, request.timeout.value_or(options_.timeout));
}

void ModelService::Infer(ServedModel& model, const InferRequest& request, Done done) const {
  absl::StatusOr<ServedExamples> examples = model.signature().ExamplesOf(request.inputs);
  if (!examples.ok()) return done(examples.status());
  const int64_t count = examples->count;
  const absl::Status queued =
      model.batcher().Submit(*std::move(examples), RealClock().Now() + TimeoutOf(request),
                             [done, count, version = model.version()](absl::StatusOr<std::vector<float>> values) {
                               if (!values.ok()) return done(values.status());
                               done(InferAnswer{.version = version, .examples = count, .values = *std::move(values)});
                             });
  if (!queued.ok()) done(queued);
}

absl::StatusOr<InferAnswer> ModelService::InferAndWait(ServedModel& model, const InferRequest& request) const {
  const auto awaited = std::make_shared<Awaited>();
  Infer(model, request, [awaited](absl::StatusOr<InferAnswer> answer) {
    awaited->answer = std::move(answer);
    awaited->answered.Notify();
  });
  if (awaited->answered.WaitForNotificationWithTimeout(TimeoutOf(request))) return *std::move(awaited->answer);
  return absl::DeadlineExceededError(fmt::format("no answer within {}", absl::FormatDuration(TimeoutOf(request))));
}

}  // namespace trainyard::engine
