#include "trainer/launch/progress_client.h"

#include <fmt/format.h>
#include <httplib.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/base/parse_json.h"
#include "trainer/base/whole_number.h"

namespace trainyard::engine {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::optional<int64_t> WholeIn(const nlohmann::json& object, const char* name) {
  return object.is_object() && object.contains(name) ? WholeNumber(object.at(name)) : std::nullopt;
}

// Those that are none are left out.
std::vector<Evaluation> EvaluationsOf(const nlohmann::json& list) {
  std::vector<Evaluation> evaluations;
  for (const nlohmann::json& item : list) {
    const std::optional<int64_t> step = WholeIn(item, "step");
    const std::optional<int64_t> epoch = WholeIn(item, "epoch");
    if (!step || !epoch || !item.contains("metrics") || !item["metrics"].is_object()) continue;
    Evaluation& evaluation = evaluations.emplace_back(Evaluation{.step = *step, .epoch = *epoch, .metrics = {}});
    for (const auto& [name, value] : item["metrics"].items()) {
      if (value.is_number() || value.is_null()) evaluation.metrics[name] = value.is_number() ? value.get<double>() : kNan;
    }
  }
  return evaluations;
}

}  // namespace

absl::StatusOr<Progress> ParseProgress(std::string_view json) {
  const nlohmann::json value = ParseJson(json);
  if (!value.is_object()) return absl::InvalidArgumentError("progress: expected a JSON object");
  const auto number = [&value](const char* name) -> std::optional<double> {
    const auto found = value.find(name);
    if (found == value.end() || !found->is_number()) return std::nullopt;
    return found->get<double>();
  };
  Progress progress;
  progress.step = WholeIn(value, "step").value_or(0);
  progress.total_steps = WholeIn(value, "totalSteps").value_or(0);
  progress.epoch = WholeIn(value, "epoch").value_or(0);
  progress.loss = number("loss");
  if (const auto loss = value.find("loss"); loss != value.end() && loss->is_null()) progress.loss = kNan;
  progress.batches_per_second = number("batchesPerSecond").value_or(0);
  progress.examples_per_second = number("examplesPerSecond").value_or(0);
  if (const auto unit = value.find("unit"); unit != value.end() && unit->is_string()) progress.unit.name = unit->get<std::string>();
  progress.unit.per_example = WholeIn(value, "unitsPerExample").value_or(1);
  if (const auto metrics = value.find("metrics"); metrics != value.end() && metrics->is_object()) {
    if (const auto found = metrics->find("trainPerplexity"); found != metrics->end() && found->is_number()) progress.perplexity = *found;
  }
  if (const auto eta = number("etaSeconds")) progress.eta = absl::Seconds(*eta);
  progress.last_checkpoint_step = WholeIn(value, "lastCheckpointStep");
  if (const auto warning = value.find("warning"); warning != value.end() && warning->is_string()) progress.warning = *warning;
  if (const auto waiting = value.find("waiting"); waiting != value.end() && waiting->is_string()) progress.waiting = *waiting;
  if (const auto list = value.find("evaluations"); list != value.end() && list->is_array()) progress.evaluations = EvaluationsOf(*list);
  return progress;
}

absl::StatusOr<Progress> FetchProgress(uint16_t port, absl::Duration timeout) {
  httplib::Client client("127.0.0.1", port);
  const auto limit = absl::ToChronoMicroseconds(timeout);
  client.set_connection_timeout(limit);
  client.set_read_timeout(limit);
  client.set_write_timeout(limit);
  const httplib::Result result = client.Get("/progress");
  if (!result) return absl::UnavailableError(fmt::format("127.0.0.1:{}: {}", port, httplib::to_string(result.error())));
  if (result->status != 200) return absl::UnavailableError(fmt::format("127.0.0.1:{}: HTTP status {}", port, result->status));
  return ParseProgress(result->body);
}

}  // namespace trainyard::engine
