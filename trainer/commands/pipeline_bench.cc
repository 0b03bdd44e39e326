#include "trainer/commands/pipeline_bench.h"

#include <fmt/format.h>

#include <limits>

#include "trainer/base/status_macros.h"
#include "trainer/data/prefetcher.h"
#include "trainer/report/input_times.h"
#include "trainer/train/make_input.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kBatchDeadline = absl::Minutes(5);

}  // namespace

absl::StatusOr<PipelineSpeed> MeasurePipeline(const Dataset& dataset, const TrainingConfig& config, absl::Duration duration, Clock& clock) {
  TY_ASSIGN_OR_RETURN(Sampler sampler, MakeSampler(dataset.info(), config, /*workers=*/1, /*worker=*/0));
  Prefetcher input(dataset, std::move(sampler), PrefetchOptions(config, 0, std::numeric_limits<int64_t>::max()), clock);
  PipelineSpeed speed;
  InputTimes times;
  const absl::Time start = clock.Now();
  absl::Time now = start;
  while (now - start < duration) {
    TY_ASSIGN_OR_RETURN(const Batch* const batch, input.Next(kBatchDeadline));
    ++speed.batches;
    speed.examples += batch->examples;
    times.Add(batch->stages.spans());
    now = clock.Now();
  }
  speed.seconds = absl::ToDoubleSeconds(now - start);
  speed.prefetch_depth = input.depth();
  speed.stages = times.seconds();
  return speed;
}

std::string SpeedText(const PipelineSpeed& speed) {
  std::string text = fmt::format("{:.0f} examples/s: {} batches, {} examples in {:.2f} s, prefetch depth {}\n",
                                 speed.seconds > 0 ? static_cast<double>(speed.examples) / speed.seconds : 0.0, speed.batches,
                                 speed.examples, speed.seconds, speed.prefetch_depth);
  for (const auto& [stage, seconds] : speed.stages) {
    text += fmt::format("{:<8} {:>9.3f} s {:>9.3f} us/example\n", stage, seconds,
                        speed.examples > 0 ? seconds * 1e6 / static_cast<double>(speed.examples) : 0.0);
  }
  return text;
}

}  // namespace trainyard::engine
