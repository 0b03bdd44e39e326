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
#include "trainer/predict/predictor.h"
#include "trainer/serve/served_examples.h"

namespace trainyard::engine {

struct BatcherOptions {
  int64_t most_batch = 32;    // examples in a batch; a power of two
  absl::Duration most_wait;   // a request waits this long for others; zero: it takes those that came while the model was busy
  int64_t most_queued = 256;  // examples that wait, over all requests
};

// What a sequence carries from request to request. Only batchers look into it, one at a time.
struct CarriedRow {
  RowState state;
  bool in_batch = false;  // a request of the sequence is being answered; the next one waits
};

// The least power of two that holds `examples`: the batch sizes that a model is compiled for.
int64_t BucketOf(int64_t examples);

// Thread-safe. Owns a thread that calls the model. The destructor answers all requests first.
//
// An example of several steps keeps its row of the batch until its last one. Before that it reads
// ReadLengthFor steps at a time. Rows that read as many share a run. Rows of other lengths, and
// those at their last step, have their runs in turn. The rows of examples that are through are
// given to those that wait. So a long text holds up no short one.
class Batcher {
 public:
  // `values` hold what the model says of each example at its last step, or the error of all of
  // them. False: nobody waits for the answer any more, and the sequence stays as it was before.
  using Done = std::function<bool(absl::StatusOr<std::vector<float>> values)>;
  // Runs one step of a batch of BucketOf(n) rows, of which `states` are the first n; the result
  // stays valid until the next call. Never called twice at once, but by several threads; likewise
  // Reader.
  using Model = std::function<absl::StatusOr<std::span<const float>>(DType dtype, std::span<const std::byte> bytes, int64_t examples,
                                                                     std::span<RowState* const> states)>;
  // Reads `length` steps of each row into its state. Only for models whose examples have several
  // steps.
  using Reader = std::function<absl::Status(std::span<const std::byte> bytes, int64_t length, std::span<RowState* const> states)>;
  // After each batch: its examples, those that fill it up to its size, and its time.
  struct BatchSeen {
    int64_t examples = 0;
    int64_t size = 0;
    absl::Duration time;
  };
  using Listener = std::function<void(const BatchSeen& batch)>;

  struct Request {
    ServedExamples examples;
    absl::Time deadline;  // of RealClock().Now()
    // One example goes on from here, and leaves its state here. Requests of one sequence are
    // answered in the order in which they come. Null: examples begin, and leave nothing.
    std::shared_ptr<CarriedRow> carried = nullptr;
    Done done;
  };

  Batcher(const BatcherOptions& options, Model model, Reader reader, Listener listener);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // `done` is called once, by the thread that runs the model, and must not wait. A request that has
  // more examples than a batch is spread over several. ResourceExhausted: too many examples wait;
  // InvalidArgument: the request has more than may ever wait. `done` is not called then. After the
  // deadline the answer of a request that is not through is DeadlineExceeded.
  absl::Status Submit(Request request);

  // Examples that wait.
  int64_t queued() const;

 private:
  struct Item {
    Request request;
    absl::Time arrived;
    size_t step_bytes = 0;
    int64_t begun = 0;     // examples that are in a batch or were
    size_t begun_at = 0;   // their bytes
    int64_t answered = 0;  // examples that are through
    std::vector<float> values;
  };
  // One example in the batch.
  struct Row {
    std::shared_ptr<Item> item;
    int64_t example = 0;
    size_t at = 0;  // bytes of its next step
    int64_t steps_left = 1;
    RowState state;
  };

  void Loop();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || !items_.empty() || !rows_.empty(); }
  bool HasBatch() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || queued_ >= options_.most_batch; }
  // Takes the requests whose time is over out of queue and batch.
  std::vector<std::shared_ptr<Item>> TakeExpired() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the free rows of the batch to examples that wait.
  void FillRows() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunBatch();
  // Fills group_ with the rows whose turn it is.
  void TakeGroup();
  absl::StatusOr<std::span<const float>> RunGroup(int64_t size);
  std::span<const std::byte> BytesOfGroup(int64_t size);
  void EndStep(Row& row, std::span<const float> said);
  static void Answer(Item& item, absl::StatusOr<std::vector<float>> values, const RowState* state = nullptr);

  const BatcherOptions options_;
  const Model model_;
  const Reader reader_;
  const Listener listener_;
  std::vector<std::byte> bytes_;     // of the thread that runs the model
  std::vector<RowState*> states_;    // likewise
  std::vector<Row> rows_;            // likewise: the batch
  std::vector<Row*> group_;          // likewise: those of a run
  int64_t piece_ = kReadLengths[0];  // likewise: the steps that they read; 0: their last one
  mutable Mutex mutex_;
  std::deque<std::shared_ptr<Item>> items_ ABSL_GUARDED_BY(mutex_);  // with examples that are in no batch yet
  int64_t queued_ ABSL_GUARDED_BY(mutex_) = 0;                       // those examples
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace trainyard::engine
