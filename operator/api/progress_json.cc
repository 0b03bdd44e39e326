#include "operator/api/progress_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/api/text.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr size_t kMaxMetrics = 16;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxStragglers = 64;
constexpr size_t kMaxReasonBytes = 512;
constexpr int kMaxProgressDepth = 8;
constexpr size_t kMaxVersionDigits = 18;  // fit in an int64_t

// Deep nesting would cost stack in a recursive reader; the object is flat but for metrics and
// stragglers.
bool TooDeep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kMaxProgressDepth) return true;
  }
  return false;
}

std::optional<int64_t> Count(const json& object, const char* key) {
  const std::optional<int64_t> value = json_read::Integer(object, key);
  return value && *value >= 0 ? value : std::nullopt;
}

std::optional<double> Positive(const json& object, const char* key) {
  const std::optional<double> value = json_read::Number(object, key);
  return value && *value >= 0 ? value : std::nullopt;
}

// For people who read a table, 4 significant digits are enough. So fewer writes differ.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 5 - std::ceil(std::log10(std::fabs(value))));
  const double rounded = std::round(value * scale) / scale;
  return std::isfinite(rounded) ? rounded : value;
}

std::optional<double> Rounded(std::optional<double> value) { return value ? std::optional<double>(Rounded(*value)) : value; }

}  // namespace

std::optional<Progress> ParseProgress(std::string_view text) {
  if (text.size() > kMaxProgressBytes || TooDeep(text)) return std::nullopt;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::optional<int64_t> step = Count(object, "step");
  if (!step) return std::nullopt;
  Progress progress;
  progress.step = *step;
  progress.total_steps = Count(object, "totalSteps");
  progress.epoch = Rounded(Positive(object, "epoch"));
  progress.percent = Positive(object, "percent");
  if (!progress.percent && progress.total_steps.value_or(0) > 0) {
    progress.percent = 100.0 * static_cast<double>(progress.step) / static_cast<double>(*progress.total_steps);
  }
  if (progress.percent) progress.percent = std::round(std::min(*progress.percent, 100.0) * 10) / 10;
  progress.loss = Rounded(json_read::Number(object, "loss"));
  const json& metrics = json_read::Get(object, "metrics");
  if (metrics.is_object()) {
    for (const auto& [name, value] : metrics.items()) {
      if (progress.metrics.size() == kMaxMetrics) break;
      if (!name.empty() && name.size() <= kMaxNameBytes && value.is_number() && std::isfinite(value.get<double>())) {
        progress.metrics[name] = value.get<double>();
      }
    }
  }
  progress.batches_per_second = Rounded(Positive(object, "batchesPerSecond"));
  progress.examples_per_second = Rounded(Positive(object, "examplesPerSecond"));
  if (const std::optional<double> eta = Positive(object, "etaSeconds"); eta && *eta < 1e12) progress.eta_seconds = std::llround(*eta);
  progress.last_checkpoint_step = Count(object, "lastCheckpointStep");
  progress.best_checkpoint_step = Count(object, "bestCheckpointStep");
  if (const json& reason = json_read::Get(object, "stoppedEarly"); reason.is_string()) {
    progress.stopped_early = Head(reason.get_ref<const std::string&>(), kMaxReasonBytes);
  }
  const json& stragglers = json_read::Get(object, "stragglers");
  if (stragglers.is_array()) {
    for (const json& name : stragglers) {
      if (progress.stragglers.size() == kMaxStragglers) break;
      if (name.is_string() && name.get_ref<const std::string&>().size() <= kMaxNameBytes)
        progress.stragglers.push_back(name.get<std::string>());
    }
  }
  return progress;
}

std::optional<ServedVersion> ParseServedVersion(std::string_view text) {
  if (text.size() > kMaxProgressBytes || TooDeep(text)) return std::nullopt;
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json& versions = json_read::Get(object, "model_version_status");
  if (!versions.is_array()) return std::nullopt;
  for (const json& each : versions) {
    if (json_read::String(each, "state") != "AVAILABLE") continue;
    const std::string digits = json_read::String(each, "version");
    const bool whole = !digits.empty() && digits.size() <= kMaxVersionDigits &&
                       std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (whole) return ServedVersion{std::stoll(digits)};
  }
  return std::nullopt;
}

bool SameProgress(const Progress& a, const Progress& b) {
  Progress same_time = a;
  same_time.updated_time = b.updated_time;
  return same_time == b;
}

}  // namespace trainyard::control
