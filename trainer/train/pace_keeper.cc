#include "trainer/train/pace_keeper.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "trainer/base/log.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);  // between two looks at it

}  // namespace

void PaceKeeper::OnStep(const StepRecord& record) {
  if (!run_.sync() || run_.workers() < 2) return;
  if (record.examples > 0) own_.Add(record.end, record.compute_done - record.start);
  if (record.end < next_) return;
  next_ = record.end + kPeriod;
  if (const std::optional<absl::Duration> own = own_.Mean()) {
    run_.updater->TellPace({.worker = run_.rank(), .step = *own, .node = run_.options.identity.node});
  }
  if (run_.chief()) Watch();
}

void PaceKeeper::Watch() {
  const std::vector<WorkerPace> paces = run_.updater->paces();
  const bool own_chief = !run_.options.identity.chief_host.empty();
  for (const StragglerWatch::Change& change : watch_.Judge(paces)) {
    const auto& [pace, median] = change.straggler;
    const std::string name = TrainerName(pace.worker, own_chief);
    const std::string text = fmt::format("{} on {} {} at step {}: {:.1f} ms a step without waits, the median of {} workers is {:.1f} ms",
                                         name, pace.node, change.begins ? "is slow" : "is slow no more", run_.global_step,
                                         absl::ToDoubleMilliseconds(pace.step), paces.size(), absl::ToDoubleMilliseconds(median));
    if (change.begins) {
      LogWarning("{}", text);
      run_.recorder->OnStragglerBegins({.replica = name,
                                        .node = pace.node,
                                        .from = run_.global_step,
                                        .step_seconds = absl::ToDoubleSeconds(pace.step),
                                        .median_seconds = absl::ToDoubleSeconds(median)});
    } else {
      LogInfo("{}", text);
      run_.recorder->OnStragglerEnds(name, run_.global_step);
    }
  }
  std::vector<std::pair<std::string, double>> seconds;
  for (const WorkerPace& pace : paces) seconds.emplace_back(TrainerName(pace.worker, own_chief), absl::ToDoubleSeconds(pace.step));
  run_.recorder->OnPaces(std::move(seconds));
}

}  // namespace trainyard::engine
