#include "trainer/launch/report_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "trainer/base/counted.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/whole_number.h"
#include "trainer/launch/hints.h"
#include "trainer/launch/progress_text.h"
#include "trainer/launch/shell_word.h"
#include "trainer/report/number_text.h"

namespace trainyard::engine {
namespace {

// NaN where the report has null, which is how JSON says it, and where it has nothing.
double NumberAt(const nlohmann::json& object, const char* name) {
  return object.contains(name) && object[name].is_number() ? object[name].get<double>() : std::numeric_limits<double>::quiet_NaN();
}

int64_t WholeAt(const nlohmann::json& object, const char* name) {
  return object.contains(name) ? WholeNumber(object[name]).value_or(0) : 0;
}

void AppendLine(std::string& text, std::string_view label, std::string_view value) {
  fmt::format_to(std::back_inserter(text), "  {:<13} {}\n", label, value);
}

void AppendEvaluation(std::string& text, const nlohmann::json& eval) {
  if (eval.contains("accuracy")) AppendLine(text, "accuracy", MetricText(NumberAt(eval, "accuracy")));
  if (eval.contains("perplexity")) AppendLine(text, "perplexity", PerplexityText(NumberAt(eval, "perplexity")));
  if (eval.contains("loss")) AppendLine(text, "loss", MetricText(NumberAt(eval, "loss")) + " (evaluation)");
}

void AppendTrainingLoss(std::string& text, const nlohmann::json& report) {
  if (report.contains("lastLoss")) {
    AppendLine(text, "training loss",
               fmt::format("{}, {} at the start", MetricText(NumberAt(report, "lastLoss")), MetricText(NumberAt(report, "firstLoss"))));
  }
  if (report.contains("warning")) AppendLine(text, "warning", report.value("warning", ""));
}

// "560 steps", "120 of 560 steps", in an asynchronous job "560 steps, 280 of each worker", of a
// launch that went on "steps 423 to 560".
std::string StepsText(const nlohmann::json& report) {
  const int64_t steps = WholeAt(report, "steps");
  const int64_t planned = WholeAt(report, "plannedSteps");
  if (const int64_t first = WholeAt(report, "firstStep"); first > 0 && steps > first) {
    return fmt::format("steps {} to {}{}", first, steps, steps < planned ? fmt::format(" of {}", planned) : "");
  }
  if (steps < planned) return fmt::format("{} of {}", steps, Counted(planned, "step"));
  const int64_t workers = WholeAt(report, "workers");
  if (report.value("strategy", "").ends_with("async") && workers > 1 && steps % workers == 0) {
    return fmt::format("{}, {} of each worker", Counted(steps, "step"), steps / workers);
  }
  return Counted(steps, "step");
}

// A run that found all of its steps done.
void AppendNothingTrained(std::string& text, const nlohmann::json& report) {
  int64_t batches = 0;
  const nlohmann::json workers = report.value("perWorker", nlohmann::json::array());
  for (const nlohmann::json& worker : workers) batches += WholeAt(worker, "batches");
  const bool restarted = report.contains("failures") && !report["failures"].empty();
  if (report.value("state", "") != "Succeeded" || workers.empty() || batches > 0 || restarted) return;
  AppendLine(text, "trained", fmt::format("no step: all {} steps of this job were done before", WholeAt(report, "plannedSteps")));
}

// Steps that training.onNonFinite: skip left out.
void AppendSkipped(std::string& text, const nlohmann::json& report) {
  int64_t skipped = 0;
  int64_t batches = 0;
  for (const nlohmann::json& worker : report.value("perWorker", nlohmann::json::array())) {
    skipped += WholeAt(worker, "skippedBatches");
    batches += WholeAt(worker, "batches");
  }
  if (skipped == 0) return;
  AppendLine(text, "left out", fmt::format("{} of {} batches: their loss or gradient was not finite", skipped, batches));
}

void AppendSkippedCheckpoints(std::string& text, const nlohmann::json& restarts) {
  for (const nlohmann::json& record : restarts) {
    if (record.value("replica", "") != "checkpoint") continue;
    AppendLine(text, "checkpoint",
               fmt::format("{}; went on from step {}, {} lost", record.value("reason", ""), WholeAt(record, "step"),
                           Counted(WholeAt(record, "lostSteps"), "step")));
  }
}

void AppendRedone(std::string& text, const nlohmann::json& redone) {
  for (const nlohmann::json& record : redone) {
    AppendLine(text, "done again",
               fmt::format("steps {} to {}: {}", WholeAt(record, "from"), WholeAt(record, "to"), record.value("reason", "")));
  }
}

void AppendAllReduce(std::string& text, const nlohmann::json& record) {
  std::string line = record.value("algorithm", "");
  if (record.contains("latencySeconds")) line += fmt::format("; latency {:.0f} us", 1e6 * NumberAt(record, "latencySeconds"));
  if (record.contains("bytesPerSecond")) line += fmt::format(", {:.2g} GB/s", 1e-9 * NumberAt(record, "bytesPerSecond"));
  AppendLine(text, "all-reduce", line);
}

void AppendStragglers(std::string& text, const nlohmann::json& stragglers) {
  constexpr size_t kMostShown = 5;
  size_t shown = 0;
  for (const nlohmann::json& record : stragglers) {
    if (++shown > kMostShown) break;
    const std::string until = record.contains("to") ? fmt::format(" to {}", WholeAt(record, "to")) : "";
    AppendLine(text, "slow",
               fmt::format("{} on {} from step {}{}: {:.1f} ms a step without waits, the median is {:.1f} ms", record.value("replica", ""),
                           record.value("node", ""), WholeAt(record, "from"), until, 1e3 * NumberAt(record, "stepSeconds"),
                           1e3 * NumberAt(record, "medianSeconds")));
  }
}

}  // namespace

std::string SummaryText(std::string_view report_json, const SummaryContext& context) {
  const auto& [dir, checkpoints, summaries, file, called_as, profile, overrides, serves_best, checkpoint_step, has_page, exists] = context;
  const nlohmann::json report = ParseJson(report_json);
  if (!report.is_object()) return "";
  const std::string state = report.value("state", "");
  const std::string strategy = report.value("strategy", "");
  const int devices = report.value("devices", 1);
  const std::string of_devices = devices > 1 ? fmt::format(" of {} devices", devices) : "";
  std::string text = fmt::format("\n{} {}: {}{}{}{}, {}\n", report.value("job", ""), state, strategy, strategy.empty() ? "" : ", ",
                                 Counted(report.value("workers", 0), "worker"), of_devices, Counted(report.value("ps", 0), "server"));
  if (report.contains("eval")) AppendEvaluation(text, report["eval"]);
  AppendTrainingLoss(text, report);
  AppendNothingTrained(text, report);
  AppendSkipped(text, report);
  if (report.contains("stoppedEarly")) AppendLine(text, "stopped early", report["stoppedEarly"].value("reason", ""));
  if (report.contains("best")) {
    const nlohmann::json& best = report["best"];
    AppendLine(text, "best",
               fmt::format("{} {} at step {}: {}", best.value("metric", ""), NumberText(NumberAt(best, "value")), WholeAt(best, "step"),
                           best.value("checkpoint", "")));
  }
  if (const double speed = NumberAt(report, "unitsPerSecond"); speed > 0) {
    AppendLine(text, "speed",
               fmt::format("{:.0f} {}/s, {:.1f} batches/s", speed, report.value("unit", ""), NumberAt(report, "batchesPerSecond")));
  }
  if (report.contains("allReduce")) AppendAllReduce(text, report["allReduce"]);
  AppendLine(text, "time", fmt::format("{:.1f} s, {}", NumberAt(report, "seconds"), StepsText(report)));
  if (report.contains("failures") && !report["failures"].empty()) {
    for (const nlohmann::json& failure : report["failures"]) {
      AppendLine(text, "failure", fmt::format("{}: {}", failure.value("replica", ""), failure.value("reason", "")));
    }
  }
  if (report.contains("restarts")) AppendSkippedCheckpoints(text, report["restarts"]);
  if (report.contains("redone")) AppendRedone(text, report["redone"]);
  if (report.contains("stragglers")) AppendStragglers(text, report["stragglers"]);
  // A full disk may have kept a file away, or a user has removed the folder meanwhile.
  const auto append_path = [&](std::string_view label, const std::string& path, const std::string& shown) {
    AppendLine(text, label, exists(path) ? shown : fmt::format("none: {} is not there", path));
  };
  const auto append_file = [&](std::string_view label, std::string_view name) {
    const std::string path = fmt::format("{}/{}", dir, name);
    append_path(label, path, path);
  };
  if (has_page) append_file("page", "report.html");
  append_file("report", "report.json");
  append_path("checkpoints", std::string(checkpoints), std::string(checkpoints));
  append_path("TensorBoard", std::string(summaries), fmt::format("tensorboard --logdir {}", ShellWord(summaries)));
  if (!profile.empty())
    append_path("trace", fmt::format("{}/trace.json", dir), fmt::format("{}/trace.json (open in ui.perfetto.dev)", dir));
  append_file("logs", "logs");
  if (!profile.empty()) fmt::format_to(std::back_inserter(text), "\nWhere the time went, {}", profile);
  const std::vector<Hint> hints = NextSteps(report, {.dir = std::string(dir),
                                                     .file = std::string(file),
                                                     .overrides = overrides,
                                                     .profiled = !profile.empty(),
                                                     .serves_best = serves_best,
                                                     .checkpoint_step = checkpoint_step});
  if (!hints.empty()) text += "\nTry next:\n";  // what failed is said by the launcher, below
  for (const Hint& hint : hints) {
    fmt::format_to(std::back_inserter(text), "  {} {}\n      {}\n", called_as, hint.arguments, hint.what);
  }
  return text;
}

}  // namespace trainyard::engine
