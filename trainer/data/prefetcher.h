// Reads batches ahead of the step loop on its own thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/data/batch.h"
#include "trainer/data/dataset.h"
#include "trainer/data/sampler.h"

namespace trainyard::engine {

struct PrefetcherOptions {
  int depth = 2;           // batches ready ahead, on a thread, in depth + 1 buffers; 0: read in the caller's thread
  int64_t first_step = 0;  // of the sampler
  int64_t end_step = 0;    // one past the last
};

// Owned and called by one thread. Batches come in step order and are the same whatever the depth. The destructor stops and joins the
// reader.
class Prefetcher {
 public:
  // `dataset` and `clock` must outlive the prefetcher.
  Prefetcher(const Dataset& dataset, Sampler sampler, const PrefetcherOptions& options, Clock& clock);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, which stays valid until the next call; null after the last step. A read error is returned at its step and at every
  // later call. DeadlineExceeded when no batch came in time.
  absl::StatusOr<const Batch*> Next(absl::Time deadline);

  // Time that Next() spent waiting, in all.
  absl::Duration input_wait() const { return input_wait_; }

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
  Clock& clock_;
  absl::Duration input_wait_ = absl::ZeroDuration();
};

}  // namespace trainyard::engine
