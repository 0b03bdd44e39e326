#include "trainer/data/prefetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/base/bounded_queue.h"
#include "trainer/base/check.h"

namespace trainyard::engine {

// Batches go round in a circle: empty ones to the reading thread, filled ones back in step order.
// With depth 0 there is no thread and the caller fills.
struct Prefetcher::Reader {
  struct Filled {
    absl::Status status;
    std::unique_ptr<Batch> batch;
  };

  Reader(const Dataset& from, Sampler order, const PrefetcherOptions& options, Clock& clock)
      : dataset(from),
        clock(clock),
        max_depth(std::max(options.depth, options.max_depth)),
        end_step(options.end_step),
        sampler(std::move(order)),
        depth(options.depth),
        next_step(options.first_step),
        empty(static_cast<size_t>(max_depth) + 1),
        filled(static_cast<size_t>(max_depth) + 1) {
    AddBatches(depth + 1);
    if (depth > 0) thread = std::thread([this, first = options.first_step] { ReadAhead(first); });
  }
  ~Reader() {
    empty.Close();
    filled.Close();
    if (thread.joinable()) thread.join();
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void AddBatches(int count) {
    for (int i = 0; i < count; ++i) {
      auto batch = std::make_unique<Batch>();
      batch->stages = StageLog(clock);
      empty.Push(std::move(batch));
    }
  }

  // Before each batch is taken.
  void AdaptDepth() {
    const auto ready = static_cast<int>(filled.size());
    if (ready >= depth) was_ahead = true;
    if (ready > 0 || !was_ahead || depth >= max_depth) return;
    const int more = std::min(depth, max_depth - depth);
    AddBatches(more);
    depth += more;
    was_ahead = false;
  }

  Filled Fill(int64_t step, std::unique_ptr<Batch> batch) {
    const SamplerStep at = sampler.At(step);
    batch->stages.Clear();
    const absl::Time start = batch->stages.Now();
    sampler.Indices(at, indices);
    batch->stages.Add("order", start);
    batch->epoch = at.epoch;
    absl::Status status = indices.empty() ? absl::OkStatus() : dataset.Read(indices, *batch);
    batch->examples = at.examples();
    batch->global_examples = at.global_examples();
    batch->step = step;
    batch->step_in_epoch = at.step_in_epoch;
    batch->last_in_epoch = at.last_in_epoch;
    return {std::move(status), std::move(batch)};
  }

  void ReadAhead(int64_t first) {
    for (int64_t step = first; step < end_step; ++step) {
      std::optional<std::unique_ptr<Batch>> batch = empty.Pop();
      if (!batch) return;
      Filled item = Fill(step, *std::move(batch));
      const bool failed = !item.status.ok();
      if (!filled.Push(std::move(item)) || failed) return;
    }
  }

  const Dataset& dataset;
  Clock& clock;
  const int max_depth;
  const int64_t end_step;
  // The reading thread's; the caller's with depth 0.
  Sampler sampler;
  std::vector<int64_t> indices;
  // The caller's.
  int depth;
  bool was_ahead = false;
  int64_t next_step;
  std::unique_ptr<Batch> current;
  absl::Status status;

  BoundedQueue<std::unique_ptr<Batch>> empty;
  BoundedQueue<Filled> filled;
  std::thread thread;
};

Prefetcher::Prefetcher(const Dataset& dataset, Sampler sampler, const PrefetcherOptions& options, Clock& clock) : clock_(clock) {
  TY_CHECK(options.depth >= 0);
  TY_CHECK(options.depth > 0 || options.max_depth == 0);
  reader_ = std::make_unique<Reader>(dataset, std::move(sampler), options, clock);
}

Prefetcher::~Prefetcher() = default;

int Prefetcher::depth() const { return reader_->depth; }

absl::StatusOr<const Batch*> Prefetcher::Next(absl::Duration at_most) {
  Reader& reader = *reader_;
  if (!reader.status.ok()) return reader.status;
  if (reader.current) reader.empty.Push(std::move(reader.current));
  if (reader.next_step >= reader.end_step) return nullptr;

  if (reader.max_depth > 0) reader.AdaptDepth();
  const absl::Time start = clock_.Now();
  std::optional<Reader::Filled> item =
      reader.depth > 0 ? reader.filled.Pop(at_most) : std::optional(reader.Fill(reader.next_step, *reader.empty.Pop()));
  input_wait_ += clock_.Now() - start;
  if (!item)
    return absl::DeadlineExceededError(
        fmt::format("no batch for step {} came from {} in time", reader.next_step, reader.dataset.info().name));
  if (!item->status.ok()) {
    reader.status = std::move(item->status);
    return reader.status;
  }
  reader.current = std::move(item->batch);
  ++reader.next_step;
  return reader.current.get();
}

}  // namespace trainyard::engine
