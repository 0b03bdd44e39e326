// The payloads of one direction of a stream that the other process reads where they lie.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

inline constexpr size_t kMostLoans = 64;

// Lies in the shared memory; zeros at first.
struct LoanState {
  alignas(64) std::atomic<uint64_t> returned;  // bit i: the reader has given loan i back
  std::atomic<uint32_t> awaited;               // the lender wants to hear of that at once
};

// The lender's end. Thread-safe. The other process can spoil what it reads itself, by giving it
// back too early, and nothing else.
class LoanBook {
 public:
  explicit LoanBook(LoanState& state) : state_(state) {}

  // Keeps the payload until it is given back. Returns its number; nothing: too many are lent.
  std::optional<uint32_t> Lend(const Payload& payload);
  // The reader has given something back.
  bool due() const { return state_.returned.load(std::memory_order_seq_cst) != 0; }
  // Lets go of what was given back.
  void TakeBack();
  // From now on the reader rings when it gives something back, until all is back.
  void Hasten();
  // Something is lent, as far as TakeBack knows.
  bool any();
  // Lets go of everything: the stream has ended.
  void Clear();

 private:
  // Takes the payloads of `numbers` out, for the caller to release outside the lock.
  std::vector<Payload> Remove(uint64_t numbers);

  LoanState& state_;
  absl::Mutex mutex_;
  std::array<Payload, kMostLoans> lent_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // bit i: loan i is out
};

}  // namespace trainyard::engine
