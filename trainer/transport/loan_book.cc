#include "trainer/transport/loan_book.h"

#include <bit>
#include <utility>

namespace trainyard::engine {

std::optional<uint32_t> LoanBook::Lend(const Payload& payload) {
  absl::MutexLock lock(&mutex_);
  if (~used_ == 0) return std::nullopt;
  const auto number = static_cast<uint32_t>(std::countr_one(used_));
  used_ |= uint64_t{1} << number;
  lent_[number] = payload;
  return number;
}

void LoanBook::TakeBack() {
  if (!due()) return;
  Remove(state_.returned.exchange(0, std::memory_order_seq_cst));
}

void LoanBook::Hasten() {
  {
    absl::MutexLock lock(&mutex_);
    if (used_ == 0) return;
    state_.awaited.store(1, std::memory_order_seq_cst);
  }
  TakeBack();  // what came before the reader could see that
}

bool LoanBook::any() {
  absl::MutexLock lock(&mutex_);
  return used_ != 0;
}

void LoanBook::Clear() { Remove(~uint64_t{0}); }

std::vector<Payload> LoanBook::Remove(uint64_t numbers) {
  std::vector<Payload> removed;
  absl::MutexLock lock(&mutex_);
  for (uint64_t left = numbers & used_; left != 0; left &= left - 1) {
    removed.push_back(std::exchange(lent_[std::countr_zero(left)], {}));
  }
  used_ &= ~numbers;
  if (used_ == 0) state_.awaited.store(0, std::memory_order_seq_cst);
  return removed;
}

}  // namespace trainyard::engine
