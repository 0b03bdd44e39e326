#include "trainer/train/make_input.h"

namespace trainyard::engine {

absl::StatusOr<Sampler> MakeSampler(const DatasetInfo& data, const TrainingConfig& config, int workers, int worker) {
  const PipelineConfig& pipeline = config.data.pipeline;
  return Sampler::Create(
      {.examples = data.examples,
       .stream_steps = data.stream_steps,
       .batch_size = config.batch_size,
       .workers = workers,
       .worker = worker,
       .order = {.files = data.files, .interleave = pipeline.interleave, .shuffle = pipeline.shuffle, .seed = config.seed},
       .shard = pipeline.shard});
}

PrefetcherOptions PrefetchOptions(const TrainingConfig& config, int64_t first_step, int64_t end_step) {
  const PrefetchConfig& prefetch = config.data.pipeline.prefetch;
  return {.depth = prefetch.depth, .max_depth = prefetch.automatic ? kMostPrefetched : 0, .first_step = first_step, .end_step = end_step};
}

}  // namespace trainyard::engine
