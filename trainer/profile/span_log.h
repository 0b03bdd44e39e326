// The record of a profiled step in one replica: work, start and end. Names come later
// (replica_profile.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/clock.h"
#include "trainer/profile/step_range.h"

namespace trainyard::engine {

enum class SpanKind : uint8_t {
  kStep,     // a whole step of a worker …
  kInput,    // … and its parts: the wait for the batch,
  kCompute,  // forward and backward,
  kUpdate,   // the wait for the new parameters
  kNode,     // `id`: the operator
  kPush,     // `id`: the part of a tensor; a worker hands its gradient to the transport
  kArrived,  // `id`: the part; its new values reached the worker (no duration)
  kPull,     // `id`: the part; a worker takes over the new values
  kReceive,  // `id`: the part; a server takes `worker`'s gradient and waits for others
  kSum,      // `id`: the part; a server takes `worker`'s gradient, sums those of the round and updates the parameter
  kStage,    // `id`: the stage of the input pipeline; it made a batch while others were computed
  kBucket,   // `id`: the bucket of gradients; all-reduce: from what this rank sends of it first until it has the result
  kWait,     // all-reduce: the wait for the last results, a part of kUpdate
};
inline constexpr int kSpanKinds = 13;

// Times in nanoseconds since 1970 by the clock of the replica that wrote it down.
struct Span {
  SpanKind kind = SpanKind::kStep;
  int32_t id = -1;
  int32_t worker = -1;  // servers only: whose push it was
  int64_t step = 0;
  int64_t start = 0;
  int64_t end = 0;

  friend bool operator==(const Span&, const Span&) = default;
};

// Thread-safe. Add allocates nothing: spans beyond the reserved capacity are counted and dropped.
class SpanLog {
 public:
  // `clock` must outlive the log.
  SpanLog(StepRange steps, Clock& clock) : steps_(steps), clock_(clock) {}

  // Once, before the first step: room for so many spans, at most kMostSpans. Pages that are never
  // written cost no memory.
  static constexpr size_t kMostSpans = size_t{1} << 20;
  void Reserve(size_t spans);

  const StepRange& steps() const { return steps_; }
  // Asked before a span is measured: where the answer is no, no clock is read.
  bool Wants(int64_t step) const { return steps_.Contains(step); }
  int64_t Now() const { return absl::ToUnixNanos(clock_.Now()); }
  void Add(const Span& span);

  std::vector<Span> spans() const;
  size_t size() const;
  int64_t dropped() const;

 private:
  const StepRange steps_;
  Clock& clock_;
  mutable absl::Mutex mutex_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace trainyard::engine
