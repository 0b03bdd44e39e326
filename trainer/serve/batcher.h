// Requests of many clients → batches of one model (micro-batching).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"
#include "trainer/serve/served_examples.h"

namespace trainyard::engine {

struct BatcherOptions {
  int64_t most_batch = 32;    // examples in a batch; a power of two
  absl::Duration most_wait;   // a request waits this long for others; zero: it takes those that came while the model was busy
  int64_t most_queued = 256;  // examples that wait, over all requests
};

// The least power of two that holds `examples`: the batch sizes that a model is compiled for.
int64_t BucketOf(int64_t examples);

// Thread-safe. Owns the thread that calls the model. The destructor answers all requests first.
class Batcher {
 public:
  // `values` hold what the model says of each example, or the error of all of them.
  using Done = std::function<void(absl::StatusOr<std::vector<float>> values)>;
  // Runs a batch of BucketOf(n) examples; the result stays valid until the next call.
  using Model = std::function<absl::StatusOr<std::span<const float>>(DType dtype, std::span<const std::byte> bytes, int64_t examples)>;
  // After each batch: its examples, those that fill it up to its size, and its time.
  struct BatchSeen {
    int64_t examples = 0;
    int64_t size = 0;
    absl::Duration time;
  };
  using Listener = std::function<void(const BatchSeen& batch)>;

  Batcher(const BatcherOptions& options, Model model, Listener listener);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // `done` is called once, by the batcher's thread, and must not wait. A request that has more
  // examples than a batch is spread over several. ResourceExhausted: too many examples wait;
  // InvalidArgument: the request has more than may ever wait. `done` is not called then. After
  // `deadline`, a time of RealClock().Now(), the answer of a request that has not begun is
  // DeadlineExceeded.
  absl::Status Submit(ServedExamples examples, absl::Time deadline, Done done);

  // Examples that wait.
  int64_t queued() const;

 private:
  struct Item {
    ServedExamples examples;
    absl::Time arrived;
    absl::Time deadline;
    Done done;
    int64_t begun = 0;  // examples that are in a batch or were
    std::vector<float> values;
  };
  // Consecutive examples of one request.
  struct Piece {
    std::shared_ptr<Item> item;
    int64_t first = 0;
    int64_t count = 0;
  };

  void Loop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || !items_.empty(); }
  bool HasBatch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || queued_ >= options_.most_batch; }
  // Requests whose time is over.
  std::vector<std::shared_ptr<Item>> TakeExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Piece> TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunBatch(const std::vector<Piece>& pieces);
  std::span<const std::byte> BytesOf(const std::vector<Piece>& pieces, int64_t size);

  const BatcherOptions options_;
  const Model model_;
  const Listener listener_;
  std::vector<std::byte> bytes_;  // of the thread
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<Item>> items_ ABSL_GUARDED_BY(mutex_);  // with examples that are in no batch yet
  int64_t queued_ ABSL_GUARDED_BY(mutex_) = 0;                       // those examples
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace trainyard::engine
