#include "trainer/checkpoint/evaluation_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/whole_number.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMaxLogBytes = 16 << 20;
constexpr size_t kMostEvaluations = 10'000;  // older ones go

std::string LineOf(const LoggedEvaluation& logged) {
  const Evaluation& evaluation = logged.evaluation;
  const json object = {
      {"step", evaluation.step}, {"epoch", evaluation.epoch}, {"metrics", evaluation.metrics}, {"checkpoint", logged.checkpoint}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

LoggedEvaluation EvaluationOf(const json& object) {
  LoggedEvaluation logged;
  logged.evaluation.step = GetWhole<int64_t>(object.at("step"));
  logged.evaluation.epoch = GetWhole<int64_t>(object.at("epoch"));
  for (const auto& [name, value] : object.at("metrics").items()) {
    // JSON has no NaN: it is written as null.
    logged.evaluation.metrics[name] = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  logged.checkpoint = object.at("checkpoint").get<std::string>();
  return logged;
}

}  // namespace

absl::StatusOr<EvaluationLog> EvaluationLog::Open(const std::string& dir) {
  EvaluationLog log(dir);
  const absl::StatusOr<std::string> text = ReadFile(log.path_, kMaxLogBytes);
  if (absl::IsNotFound(text.status())) return log;
  TY_RETURN_IF_ERROR(text.status());
  const json object = ParseJson(*text);
  if (object.is_discarded()) {
    return absl::DataLossError(fmt::format("{} is not a log of evaluations: no JSON of at most {} levels; remove the file to start anew",
                                           log.path_, kMostJsonLevels));
  }
  try {
    for (const json& item : object.at("evaluations")) {
      LoggedEvaluation logged = EvaluationOf(item);
      if (!log.evaluations_.empty() && logged.evaluation.step <= log.evaluations_.back().evaluation.step) {
        return absl::DataLossError(fmt::format("{}: step {} comes after step {}, expected rising steps; remove the file to start anew",
                                               log.path_, logged.evaluation.step, log.evaluations_.back().evaluation.step));
      }
      log.evaluations_.push_back(std::move(logged));
    }
  } catch (const json::exception& error) {
    return absl::DataLossError(fmt::format("{} is not a log of evaluations: {}; remove the file to start anew", log.path_, error.what()));
  }
  return log;
}

bool EvaluationLog::Contains(int64_t step, std::string_view checkpoint) const {
  return std::ranges::any_of(
      evaluations_, [&](const LoggedEvaluation& logged) { return logged.evaluation.step == step && logged.checkpoint == checkpoint; });
}

void EvaluationLog::ForgetAfter(int64_t step) {
  std::erase_if(evaluations_, [step](const LoggedEvaluation& logged) { return logged.evaluation.step > step; });
  lines_.resize(std::min(lines_.size(), evaluations_.size()));  // steps rise, so the last ones go
}

absl::Status EvaluationLog::Add(LoggedEvaluation evaluation) {
  ForgetAfter(evaluation.evaluation.step - 1);
  evaluations_.push_back(std::move(evaluation));
  while (lines_.size() < evaluations_.size()) lines_.push_back(LineOf(evaluations_[lines_.size()]));
  if (evaluations_.size() > kMostEvaluations) {
    evaluations_.erase(evaluations_.begin());
    lines_.erase(lines_.begin());
  }
  TY_RETURN_IF_ERROR(MakeDirectories(dir_));
  const std::string text = fmt::format("{{\"evaluations\": [\n{}\n]}}\n", fmt::join(lines_, ",\n"));
  return TellIfMayPass(ReplaceFile(path_, text), "the log of evaluations");  // the next one writes all of it
}

}  // namespace trainyard::engine
