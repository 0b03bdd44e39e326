#include "trainer/launch/report_text.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

double NumberAt(const nlohmann::json& object, const char* name) {
  return object.contains(name) && object[name].is_number() ? object[name].get<double>() : 0;
}

// "1 worker", "2 workers"
std::string Count(int count, std::string_view what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

void AppendLine(std::string& text, std::string_view label, std::string_view value) {
  fmt::format_to(std::back_inserter(text), "  {:<12} {}\n", label, value);
}

void AppendHint(std::string& text, std::string_view called_as, std::string_view arguments, std::string_view what) {
  fmt::format_to(std::back_inserter(text), "  {} {}\n      {}\n", called_as, arguments, what);
}

void AppendEvaluation(std::string& text, const nlohmann::json& eval) {
  if (eval.contains("accuracy")) AppendLine(text, "accuracy", fmt::format("{:.4f}", NumberAt(eval, "accuracy")));
  if (eval.contains("perplexity")) AppendLine(text, "perplexity", fmt::format("{:.2f}", NumberAt(eval, "perplexity")));
  if (eval.contains("loss")) AppendLine(text, "loss", fmt::format("{:.4f} (evaluation)", NumberAt(eval, "loss")));
}

}  // namespace

std::string SummaryText(std::string_view report_json, const SummaryContext& context) {
  const auto& [dir, file, called_as, profile] = context;
  const nlohmann::json report = nlohmann::json::parse(report_json, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return "";
  const std::string state = report.value("state", "");
  const std::string strategy = report.value("strategy", "");
  std::string text = fmt::format("\n{} {}: {}{}{}, {}\n", report.value("job", ""), state, strategy, strategy.empty() ? "" : ", ",
                                 Count(report.value("workers", 0), "worker"), Count(report.value("ps", 0), "server"));
  if (report.contains("eval")) AppendEvaluation(text, report["eval"]);
  if (report.contains("stoppedEarly")) AppendLine(text, "stopped early", report["stoppedEarly"].value("reason", ""));
  if (report.contains("best")) {
    const nlohmann::json& best = report["best"];
    AppendLine(text, "best",
               fmt::format("{} {:.6g} at step {}: {}", best.value("metric", ""), NumberAt(best, "value"), best.value("step", int64_t{0}),
                           best.value("checkpoint", "")));
  }
  if (const double speed = NumberAt(report, "unitsPerSecond"); speed > 0) {
    AppendLine(text, "speed",
               fmt::format("{:.0f} {}/s, {:.1f} batches/s", speed, report.value("unit", ""), NumberAt(report, "batchesPerSecond")));
  }
  AppendLine(text, "time", fmt::format("{:.1f} s, {} steps", NumberAt(report, "seconds"), report.value("steps", int64_t{0})));
  if (report.contains("failures") && !report["failures"].empty()) {
    for (const nlohmann::json& failure : report["failures"]) {
      AppendLine(text, "failure", fmt::format("{}: {}", failure.value("replica", ""), failure.value("reason", "")));
    }
  }
  AppendLine(text, "report", fmt::format("{}/report.json", dir));
  AppendLine(text, "checkpoints", fmt::format("{}/checkpoints", dir));
  AppendLine(text, "TensorBoard", fmt::format("tensorboard --logdir {}/summaries", dir));
  if (!profile.empty()) AppendLine(text, "trace", fmt::format("{}/trace.json (open in ui.perfetto.dev)", dir));
  AppendLine(text, "logs", fmt::format("{}/logs", dir));
  if (!profile.empty()) fmt::format_to(std::back_inserter(text), "\nWhere the time went, {}", profile);
  if (state != "Succeeded" && state != "Stopped") return text;  // what failed is said by the launcher, below
  text += "\nTry next:\n";
  AppendHint(text, called_as, fmt::format("launch {} --output {} --set training.epochs=10", file, dir), "go on from here for more epochs");
  if (report.contains("eval") && report["eval"].contains("perplexity"))
    AppendHint(text, called_as, fmt::format("generate {}", dir), "text of the model");
  if (report.value("ps", 0) > 0) AppendHint(text, called_as, fmt::format("launch {} --set worker.replicas=4", file), "more workers");
  AppendHint(text, called_as, fmt::format("inspect {}", file), "the graph: shapes, parameters, FLOPs, memory");
  if (!profile.empty()) AppendHint(text, called_as, fmt::format("profile {}", dir), "where the time went, node by node");
  return text;
}

}  // namespace trainyard::engine
