// How a thread sleeps until another process, or another thread of its own, has something for it: a
// futex in shared memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace trainyard::engine {

// One thread sleeps or rests, any number ring or wake. Lies in memory that processes share; zeros
// are a bell that nobody has rung.
class Doorbell {
 public:
  // Wakes the sleeper. Costs one load where nobody sleeps. `may_sleep` sees all that was stored
  // before with memory_order_seq_cst.
  void Ring();
  // Sleeps until rung, at most `at_most`. Does not sleep at all where `may_sleep` says false, which
  // is asked after the sleep was announced.
  void Sleep(absl::FunctionRef<bool()> may_sleep, absl::Duration at_most);

  // Wakes the sleeper, also from a rest.
  void Wake();
  // A sleep that Ring does not end, at no cost to who rings.
  void Rest(absl::FunctionRef<bool()> may_rest, absl::Duration at_most);

 private:
  void Wait(uint32_t rings, absl::Duration at_most);

  alignas(64) std::atomic<uint32_t> rings_;
  std::atomic<uint32_t> asleep_;
};

}  // namespace trainyard::engine
