#include "trainer/transport/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace trainyard::engine {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void Doorbell::Ring() {
  if (asleep_.load(std::memory_order_seq_cst) == 0) return;
  Wake();
}

void Doorbell::Wake() {
  rings_.fetch_add(1, std::memory_order_seq_cst);
  (void)syscall(SYS_futex, &rings_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Doorbell::Sleep(absl::FunctionRef<bool()> may_sleep, absl::Duration at_most) {
  const uint32_t rings = rings_.load(std::memory_order_seq_cst);
  asleep_.store(1, std::memory_order_seq_cst);
  if (may_sleep()) Wait(rings, at_most);
  asleep_.store(0, std::memory_order_seq_cst);
}

void Doorbell::Rest(absl::FunctionRef<bool()> may_rest, absl::Duration at_most) {
  const uint32_t rings = rings_.load(std::memory_order_seq_cst);
  if (may_rest()) Wait(rings, at_most);
}

void Doorbell::Wait(uint32_t rings, absl::Duration at_most) {
  const timespec timeout = absl::ToTimespec(at_most);  // monotonic, as FUTEX_WAIT counts
  (void)syscall(SYS_futex, &rings_, FUTEX_WAIT, rings, &timeout, nullptr, 0);
}

}  // namespace trainyard::engine
