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

// The most batches that are prepared ahead when nobody says how many.
inline constexpr int kMostPrefetched = 16;

struct PrefetcherOptions {
  int depth = 2;           // batches ready ahead, on a thread, in depth + 1 buffers; 0: read in the caller's thread
  int max_depth = 0;       // above `depth`: depth doubles up to it while that helps, see Prefetcher
  int64_t first_step = 0;  // of the sampler
  int64_t end_step = 0;    // one past the last
};

// Owned and called by one thread. Batches come in step order and are the same whatever the depth.
// The destructor stops and joins the reader.
//
// With a max_depth the depth doubles when Next() finds nothing ready although all of the depth had
// been ready before. Then the reader keeps up on the whole, but not with every step. A reader that
// never gets ahead is not helped by more memory. (As tf.data's PrefetchAutotuner.)
class Prefetcher {
 public:
  // `dataset` and `clock` must outlive the prefetcher.
  Prefetcher(const Dataset& dataset, Sampler sampler, const PrefetcherOptions& options, Clock& clock);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, which stays valid until the next call; null after the last step. A read error
  // is returned at its step and at every later call. DeadlineExceeded when no batch came within
  // `at_most`.
  absl::StatusOr<const Batch*> Next(absl::Duration at_most);

  // Time that Next() spent waiting, in all.
  absl::Duration input_wait() const { return input_wait_; }
  // Of now.
  int depth() const;

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
  Clock& clock_;
  absl::Duration input_wait_ = absl::ZeroDuration();
};

}  // namespace trainyard::engine
