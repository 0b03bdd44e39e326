// The examples that a worker reads at a step. Where workers have several devices, each device of
// each worker is a worker here.
//
// An epoch is one order of all examples (epoch_order.h), a function of (seed, epoch) alone. Step s
// takes the next batch_size * workers of them: the global batch. Worker w takes its w-th slice.
// Hence
// - every example is read once an epoch over all workers, and all workers have the same number of
//   steps.
// - the last step of an epoch shares the rest evenly, so its slices differ by at most one example.
//   When fewer examples than workers would be left, the step before gives up a few, so that no
//   slice is empty. Slices can be empty all the same with a batch_size of 1, or with fewer examples
//   than workers. So can they after a resume with more workers than examples left. Such a worker
//   takes part in the step without examples.
// - W workers with batches of B together read the step of one worker with batches of W * B.
// - a position is (epoch, offset = examples consumed), for every number of workers. So a job
//   resumed with more workers goes on from there.
//
// A stream of tokens (DatasetInfo::stream_steps) is cut into R = batch_size * workers rows of
// floor(tokens / R) tokens that follow each other. Step s of an epoch reads the s-th `steps` tokens
// of every row; the token after each is its label. Worker w has the rows from w * batch_size on: a
// contiguous part of the stream. So a row of a batch goes on where the same row of the batch before
// it ended, as carried state needs. W workers still read the step of one with W * B rows, and every
// epoch has the same order. Tokens that do not fill a row or a last step are left out.
//
// With ShardBy::kRanks each worker has an order of its own, of its own part of the data. The part
// has as many examples as the worker's slices hold, in the order of the files. All but the last two
// points hold then too.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/epoch_order.h"
#include "trainer/data/pipeline_config.h"

namespace trainyard::engine {

// The place of a checkpoint in the input: `offset` examples of epoch `epoch` are consumed.
struct SamplerPosition {
  int64_t epoch = 0;
  int64_t offset = 0;

  // The epoch of the example consumed last: at an epoch's end that one. 0 before the first.
  int64_t last_epoch() const { return offset > 0 || epoch == 0 ? epoch : epoch - 1; }

  friend bool operator==(const SamplerPosition&, const SamplerPosition&) = default;
};

struct SamplerOptions {
  int64_t examples = 0;
  int64_t stream_steps = 0;  // of the data set's info; > 0: rows of a stream, and shuffle means nothing
  int64_t batch_size = 0;    // per worker
  int workers = 1;
  int worker = 0;
  EpochOrderOptions order;
  ShardBy shard = ShardBy::kBatches;
  // Where step `start_step` begins. With the defaults step numbers are those since the start of the
  // training.
  SamplerPosition start = {};
  int64_t start_step = 0;
};

// The examples of one step of one worker.
struct SamplerStep {
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;
  int64_t begin = 0;  // [begin, end) of the epoch's order are this worker's; of its own order with ShardBy::kRanks
  int64_t end = 0;
  int64_t global_begin = 0;  // [global_begin, global_end) those of all workers
  int64_t global_end = 0;
  bool last_in_epoch = false;

  int64_t examples() const { return end - begin; }
  int64_t global_examples() const { return global_end - global_begin; }
};

// Stateless but for a cache of one epoch's order; not thread-safe. Copyable.
class Sampler {
 public:
  // InvalidArgument for no examples, a batch size below 1, a worker outside the workers, or a start
  // outside the epoch. The same for fewer tokens of a stream than one step of every row, and for a
  // start inside an epoch with ShardBy::kRanks.
  static absl::StatusOr<Sampler> Create(const SamplerOptions& options);

  // Of a whole epoch; the first one is shorter when `start` is inside it.
  int64_t StepsPerEpoch() const;
  int64_t StepsIn(int64_t epoch) const;
  // The step at the end of epoch `epochs - 1`: what `epochs: n` means in steps. At least the start.
  int64_t StepsUntilEpoch(int64_t epochs) const;
  // Of a step before the start no more is known than that it ended there: it has no examples.
  SamplerStep At(int64_t step) const;
  // The position after `steps` steps: what a checkpoint at that step holds.
  SamplerPosition PositionAfter(int64_t steps) const;
  // The same data, but step `step` begins at `start`, where other workers or batches left off. Rows
  // of a stream begin a step, and parts of ShardBy::kRanks an epoch: there the place is the one
  // before. A place behind the last example is the next epoch.
  Sampler GoingOn(int64_t step, SamplerPosition start) const;
  int64_t start_step() const { return options_.start_step; }
  const SamplerPosition& start() const { return options_.start; }
  // The example numbers of this worker at a step, in reading order. The vector's memory is reused.
  void Indices(const SamplerStep& step, std::vector<int64_t>& indices);

 private:
  // `row_tokens` of a stream, 0 otherwise.
  Sampler(const SamplerOptions& options, int64_t row_tokens) : options_(options), row_tokens_(row_tokens) {}
  int64_t StepsFor(int64_t examples) const;
  // Where step `step_in_epoch` begins in the epoch's order.
  int64_t Boundary(int64_t epoch, int64_t step_in_epoch) const;
  // The examples of `worker` in a step, and in all steps of an epoch before it.
  int64_t Share(int64_t epoch, int64_t step_in_epoch, int worker) const;
  int64_t SharesBefore(int64_t epoch, int64_t step_in_epoch, int worker) const;
  // The first example of `worker`'s part of the data.
  int64_t PartBegin(int worker) const;

  SamplerOptions options_;  // `examples` are those of one epoch
  int64_t row_tokens_;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace trainyard::engine
