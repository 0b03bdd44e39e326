#include "trainer/launch/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "trainer/base/whole_number.h"
#include "trainer/launch/shell_word.h"

namespace trainyard::engine {
namespace {

int64_t Whole(const nlohmann::json& report, const char* name) {
  const auto found = report.find(name);
  return found != report.end() ? WholeNumber(*found).value_or(0) : 0;
}

// " --set x=1 …" of the overrides, but for those of the fields in `replaced` ("training.epochs"),
// and then of `added`.
std::string Sets(const HintContext& context, const std::vector<std::string_view>& replaced, const std::vector<std::string>& added) {
  std::vector<std::string> kept;
  const auto is_replaced = [&](std::string_view override_text) {
    std::string_view path = override_text.substr(0, override_text.find('='));
    if (path.starts_with("spec.")) path.remove_prefix(std::string_view("spec.").size());
    return std::ranges::find(replaced, path) != replaced.end();
  };
  for (const std::string& one : context.overrides) {
    if (!is_replaced(one)) kept.push_back(one);
  }
  return SetArguments(kept) + SetArguments(added);
}

Hint Longer(const nlohmann::json& report, const HintContext& context) {
  constexpr const char* kEpochs = "training.epochs";
  constexpr const char* kSteps = "training.steps";
  const bool async = report.value("strategy", "").ends_with("async");
  const int64_t planned = std::max<int64_t>(1, Whole(report, "plannedSteps"));
  const int64_t done = std::max(planned, Whole(report, "steps"));  // more, where an earlier run of the folder was longer
  const int64_t planned_epochs = Whole(report, "plannedEpochs");
  const int64_t epochs = (planned_epochs * done + planned - 1) / planned;
  // training.steps of an asynchronous job are each worker's.
  const int64_t steps = done / (async ? std::max<int64_t>(1, Whole(report, "workers")) : 1);
  std::vector<std::string> added = {epochs > 0 ? fmt::format("{}={}", kEpochs, 2 * epochs)
                                               : fmt::format("{}={}", kSteps, 2 * std::max<int64_t>(1, steps))};
  if (report.contains("stoppedEarly")) added.emplace_back("training.evaluate.earlyStopping=null");
  return {.arguments = fmt::format("launch {} --output {}{}", ShellWord(context.file), ShellWord(context.dir),
                                   Sets(context, {kEpochs, kSteps, "training.evaluate.earlyStopping"}, added)),
          .what = epochs > 0 ? "go on from here for more epochs" : "go on from here for more steps"};
}

}  // namespace

std::vector<Hint> NextSteps(const nlohmann::json& report, const HintContext& context) {
  const std::string file = ShellWord(context.file);
  const std::string dir = ShellWord(context.dir);
  const std::string state = report.value("state", "");
  const std::string again = fmt::format("launch {} --output {}{}", file, dir, Sets(context, {}, {}));
  std::vector<Hint> hints;
  if (state == "Failed") {
    if (context.checkpoint_step) {
      hints.push_back({.arguments = again,
                       .what = fmt::format("go on from the checkpoint of step {}, when the cause is mended", *context.checkpoint_step)});
    }
    return hints;
  }
  if (state == "Stopped") {
    hints.push_back({.arguments = again, .what = "go on from here"});
  } else {
    hints.push_back(Longer(report, context));
  }
  if (report.contains("eval") && report["eval"].contains("perplexity")) {
    hints.push_back({.arguments = "generate " + dir, .what = "text of the model"});
  }
  const int64_t workers = Whole(report, "workers");
  if (Whole(report, "ps") > 0 && workers < 8) {
    const int64_t more = workers < 2 ? 2 : workers < 4 ? 4 : 8;
    hints.push_back(
        {.arguments = fmt::format("launch {}{}", file, Sets(context, {"worker.replicas"}, {fmt::format("worker.replicas={}", more)})),
         .what = "more workers"});
  }
  hints.push_back(
      {.arguments = fmt::format("inspect {}{}", file, Sets(context, {}, {})), .what = "the graph: shapes, parameters, FLOPs, memory"});
  if (context.serves_best) {
    hints.push_back({.arguments = fmt::format("serve {} --name {}{}", dir, ShellWord(report.value("job", "model")),
                                              *context.serves_best ? " --best" : ""),
                     .what = "answer requests for predictions: spec.serve does so in a cluster only"});
  }
  if (context.profiled) hints.push_back({.arguments = "profile " + dir, .what = "where the time went, node by node"});
  return hints;
}

}  // namespace trainyard::engine
