#include "trainer/launch/progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_join.h"
#include "trainer/report/number_text.h"

namespace trainyard::engine {
namespace {

int Percent(const Progress& progress) {
  if (progress.total_steps <= 0) return 0;
  return static_cast<int>(std::clamp<int64_t>(progress.step * 100 / progress.total_steps, 0, 100));
}

std::vector<std::string> Fields(const Progress& progress) {
  std::vector<std::string> fields = {fmt::format("epoch {}", progress.epoch)};
  if (progress.loss) fields.push_back("loss " + MetricText(*progress.loss));
  if (progress.perplexity) fields.push_back("perplexity " + PerplexityText(*progress.perplexity));
  if (progress.examples_per_second > 0) {
    fields.push_back(
        fmt::format("{:.0f} {}/s", progress.examples_per_second * static_cast<double>(progress.unit.per_example), progress.unit.name));
  }
  if (progress.eta) fields.push_back("ETA " + HoursMinutesSeconds(*progress.eta));
  return fields;
}

// `cells` wide, filled to the half cell.
std::string Bar(const Progress& progress, int cells) {
  const double done =
      progress.total_steps > 0 ? std::clamp(static_cast<double>(progress.step) / static_cast<double>(progress.total_steps), 0.0, 1.0) : 0.0;
  const int halves = static_cast<int>(done * 2 * cells);
  std::string bar;
  for (int cell = 0; cell < cells; ++cell) {
    if (2 * cell + 1 < halves) {
      bar += "━";
    } else if (2 * cell < halves) {
      bar += "╸";
    } else {
      bar += "─";
    }
  }
  return bar;
}

}  // namespace

std::string EvaluationLine(const Evaluation& evaluation) {
  std::vector<std::string> metrics;
  for (const auto& [name, value] : evaluation.metrics) metrics.push_back(fmt::format("{} {}", name, MetricText(value)));
  return fmt::format("epoch {}, step {}, evaluation: {}", evaluation.epoch, evaluation.step, absl::StrJoin(metrics, ", "));
}

std::string HoursMinutesSeconds(absl::Duration duration) {
  const int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration + absl::Milliseconds(500)));
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

Progress AtEnd(Progress newest, const ReplicaReport& chief) {
  newest.step = chief.steps;
  newest.total_steps = chief.planned_steps;
  if (chief.epochs > 0) newest.epoch = chief.epochs - 1;  // the last one that began, whole or not
  if (chief.last_loss) newest.loss = chief.last_loss;
  newest.eta.reset();
  return newest;
}

std::string ProgressBar(const Progress& progress, int columns) {
  const std::string head = fmt::format("{:3}% ", Percent(progress));
  std::string tail = fmt::format(" step {}/{}", progress.step, progress.total_steps);
  const size_t room = static_cast<size_t>(std::max(columns, 0));
  for (const std::string& field : Fields(progress)) {
    // A field that is cut would be another number.
    if (head.size() + tail.size() + 2 + field.size() > room) break;
    tail += "  " + field;
  }
  if (head.size() + tail.size() > room) return head.substr(0, std::min(room, head.size() - 1));
  return head + Bar(progress, std::min(static_cast<int>(room - head.size() - tail.size()), 40)) + tail;
}

std::string ProgressLine(const Progress& progress) {
  return fmt::format("step {}/{} ({}%), {}", progress.step, progress.total_steps, Percent(progress), absl::StrJoin(Fields(progress), ", "));
}

}  // namespace trainyard::engine
