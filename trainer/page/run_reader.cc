#include "trainer/page/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/strip.h"
#include "trainer/base/file.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/whole_number.h"
#include "trainer/checkpoint/evaluation_log.h"
#include "trainer/job/job_config.h"
#include "trainer/job/output_folders.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/page/settings.h"
#include "trainer/page/step_timeline.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kMostFileBytes = 64 << 20;
constexpr int64_t kMostTraceBytes = 32 << 20;
constexpr int64_t kRateSamples = 1000;

// Six digits are enough for a picture; null where JSON has no such number.
ordered_json PictureNumber(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

ordered_json CurveJson(std::string_view name, std::span<const CurvePoint> curve) {
  ordered_json points = ordered_json::array();
  for (const CurvePoint& point : Downsample(curve, kMostPagePoints))
    points.push_back(ordered_json::array({point.step, PictureNumber(point.value)}));
  return {{"name", name}, {"points", std::move(points)}};
}

// Nothing where the file is absent.
absl::StatusOr<std::optional<ordered_json>> ReadJson(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMostFileBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  TY_RETURN_IF_ERROR(text.status());
  ordered_json object = ParseOrderedJson(*text);
  if (!object.is_object()) return absl::DataLossError(fmt::format("{} holds no JSON object; remove it and run the command again", path));
  return object;
}

// Some steps of a finished run's trace; null where there are none, or the trace is too large to be
// read for a page.
ordered_json Timeline(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMostTraceBytes);
  const json trace = text.ok() ? ParseJson(*text) : json(nullptr);
  if (!trace.is_array()) return nullptr;
  try {
    return StepTimeline(trace);
  } catch (const json::exception&) {
    return nullptr;  // the file itself is beside the page
  }
}

// Cuts a list to its bound and notes what is left out.
void Bound(ordered_json& report, const char* name, size_t most) {
  const auto list = report.find(name);
  if (list == report.end() || !list->is_array() || list->size() <= most) return;
  report["leftOut"][name] = list->size() - most;
  list->erase(list->begin() + static_cast<std::ptrdiff_t>(most), list->end());
}

// Every n-th item of a long list, and the last one.
ordered_json Thinned(ordered_json list) {
  const size_t every = list.size() / kMostPagePoints + 1;
  if (every == 1) return list;
  ordered_json thinned = ordered_json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    if (i % every == 0 || i + 1 == list.size()) thinned.push_back(std::move(list[i]));
  }
  return thinned;
}

void BoundReport(ordered_json& report) {
  for (const char* replicas : {"perWorker", "perServer"}) Bound(report, replicas, kMostPageReplicas);
  for (const char* records : {"failures", "restarts", "redone", "stragglers"}) Bound(report, records, kMostPageRecords);
  if (const auto history = report.find("history"); history != report.end() && history->is_array()) *history = Thinned(std::move(*history));
  for (const char* replicas : {"perWorker", "perServer"}) {
    const auto list = report.find(replicas);
    for (size_t place = kMostPageCurves; list != report.end() && list->is_array() && place < list->size(); ++place) {
      if ((*list)[place].is_object()) (*list)[place].erase("usage");
    }
  }
}

// By the replica's role, and worker-10 behind worker-9.
std::vector<std::string> SummaryNames(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(dir, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("chief-") || name.starts_with("worker-")) names.push_back(name);
  }
  std::ranges::sort(names, {}, [](const std::string& name) { return std::tuple(name.substr(0, name.find('-')), name.size(), name); });
  if (names.size() > kMostPageCurves) names.resize(kMostPageCurves);
  return names;
}

int64_t LastStep(const ordered_json& curves) {
  int64_t last = 0;
  for (const ordered_json& curve : curves.value("loss", ordered_json::array())) {
    if (!curve["points"].empty()) last = std::max(last, curve["points"].back()[0].get<int64_t>());
  }
  return last;
}

ordered_json RateCurve(const OptimizerConfig& optimizer, int64_t steps) {
  std::vector<CurvePoint> points;
  for (int64_t i = 0; i <= std::min(kRateSamples, steps); ++i) {
    const int64_t step = steps <= kRateSamples ? i : i * steps / kRateSamples;
    const CurvePoint point = {.step = step, .value = LearningRateAt(optimizer, step)};
    const size_t n = points.size();
    // A straight line needs its ends only.
    if (n >= 2 && points[n - 1].value == point.value && points[n - 2].value == point.value) points.pop_back();
    points.push_back(point);
  }
  return ordered_json::array({CurveJson("learning rate", points)});
}

absl::StatusOr<ordered_json> Evaluations(const std::string& checkpoints, const ordered_json& report) {
  std::map<int64_t, ordered_json> by_step;
  for (const ordered_json& epoch : report.value("history", ordered_json::array())) {
    if (epoch.is_object() && epoch.contains("eval") && !epoch["eval"].empty())
      by_step[WholeField(epoch, "step", 0)] = {{"epoch", WholeField(epoch, "epoch", 0)}, {"metrics", epoch["eval"]}};
  }
  TY_ASSIGN_OR_RETURN(const EvaluationLog log, EvaluationLog::Open(checkpoints));
  for (const LoggedEvaluation& logged : log.evaluations()) {
    by_step[logged.evaluation.step] = {{"epoch", logged.evaluation.epoch}, {"metrics", logged.evaluation.metrics}};
  }
  ordered_json list = ordered_json::array();
  for (auto& [step, evaluation] : by_step) {
    evaluation["step"] = step;
    list.push_back(std::move(evaluation));
  }
  return Thinned(std::move(list));
}

}  // namespace

void RunReader::AddCurves(const std::string& summaries, ordered_json& run) {
  ordered_json& curves = run["curves"] = ordered_json::object();
  for (const std::string& name : SummaryNames(summaries)) {
    ScalarHistory& history = histories_.try_emplace(name, summaries + "/" + name).first->second;
    history.Refresh();
    for (const auto& [tag, curve] : history.curves()) {
      const bool speed = tag.starts_with("speed/") && tag.ends_with("_per_second");
      if (speed || tag == "loss" || tag == "perplexity") curves[speed ? "speed" : tag].push_back(CurveJson(name, curve.points));
    }
  }
}

absl::StatusOr<ordered_json> RunReader::Read(int64_t planned_steps) {
  try {
    return ReadFiles(planned_steps);
  } catch (const json::exception& error) {
    return absl::DataLossError(fmt::format("{}: report.json or evaluation.json is not what this program writes: {}", dir_, error.what()));
  }
}

absl::StatusOr<ordered_json> RunReader::ReadFiles(int64_t planned_steps) {
  TY_ASSIGN_OR_RETURN(std::optional<ordered_json> report, ReadJson(dir_ + "/report.json"));
  TY_ASSIGN_OR_RETURN(std::optional<ordered_json> settings, ReadJson(dir_ + "/config/training.json"));
  std::error_code error;
  if (!report && !settings && !fs::is_directory(dir_ + "/replicas", error)) {
    return absl::NotFoundError(
        fmt::format("{} is no output folder of a run: it has neither report.json nor config/training.json nor replicas/", dir_));
  }
  ordered_json run = {{"name", report ? report->value("job", "") : fs::path(dir_).lexically_normal().filename().string()}, {"dir", dir_}};
  TrainingConfig config;
  bool has_config = false;
  if (settings) {
    // A file of another version may not be read. Its lines are shown, without a learning rate.
    absl::StatusOr<TrainingConfig> read = ReadTrainingFile(dir_ + "/config/training.json");
    has_config = read.ok();
    if (read.ok()) config = *std::move(read);
    for (auto& [path, text] : SettingLines(*settings)) {
      if (run["settings"].size() < kMostPageSettings) run["settings"].push_back({std::move(path), std::move(text)});
    }
  }
  const std::string checkpoints = CheckpointFolder(dir_, config);
  TY_ASSIGN_OR_RETURN(run["evaluations"], Evaluations(checkpoints, report.value_or(ordered_json::object())));
  if (report) {
    BoundReport(*report);
    run["report"] = *std::move(report);
  }
  AddCurves(SummaryFolder(dir_, config), run);
  if (has_config)
    run["curves"]["learningRate"] = RateCurve(config.optimizer, run.contains("report") ? WholeField(run["report"], "steps", 0)
                                                                : planned_steps > 0    ? planned_steps
                                                                                       : LastStep(run["curves"]));
  TY_ASSIGN_OR_RETURN(std::optional<ordered_json> evaluation, ReadJson(dir_ + "/evaluation.json"));
  if (evaluation) run["evaluation"] = *std::move(evaluation);
  run["trace"] = fs::exists(dir_ + "/trace.json", error);
  if (run.contains("report") && run["trace"]) run["timeline"] = Timeline(dir_ + "/trace.json");
  return run;
}

}  // namespace trainyard::engine
