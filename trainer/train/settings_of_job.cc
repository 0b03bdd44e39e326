#include "trainer/train/settings_of_job.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "trainer/base/parse_json.h"
#include "trainer/base/sha256.h"
#include "trainer/optim/optimizer_settings.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr size_t kMostText = 200;

std::string Short(const std::string& text) {
  if (text.size() <= kMostText) return text;
  Sha256 sha256;
  sha256.Update(text);
  return fmt::format("{} bytes of SHA-256 {:.16}", text.size(), sha256.HexDigest());
}

// The fields of an object, each as a setting of its own.
void AddFields(const std::string& name, const std::string& text, JobSettings& settings) {
  const json object = ParseJson(text);
  if (!object.is_object()) return;
  for (const auto& [field, value] : object.items()) {
    if (name == "data" && field == "dir") continue;
    settings.emplace_back(name + "." + field, Short(value.dump(-1, ' ', false, json::error_handler_t::replace)));
  }
}

}  // namespace

JobSettings SettingsOf(const TrainingConfig& config) {
  JobSettings settings = {{"seed", fmt::to_string(config.seed)},
                          {"batchSize", fmt::to_string(config.batch_size)},
                          {"epochs", fmt::to_string(config.epochs)},
                          {"steps", fmt::to_string(config.steps)},
                          {"precision", config.precision ? std::string(PrecisionName(*config.precision)) : "auto"},
                          {"onNonFinite", config.on_non_finite == OnNonFinite::kSkip ? "skip" : "stop"}};
  const JobSettings optimizer = OptimizerSettings(config.optimizer);
  settings.insert(settings.end(), optimizer.begin(), optimizer.end());
  AddFields("model", config.model_json, settings);
  AddFields("data", config.data_json, settings);
  return settings;
}

}  // namespace trainyard::engine
