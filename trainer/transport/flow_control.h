// The bookkeeping of a stream's flow control, with no I/O: how much one side may send and the other
// side has granted (docs/wire.md, "Credit").
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

inline constexpr int64_t kFirstCreditBytes = 1 << 20;  // what each side may send before it hears of credit
// The window of each of `streams` streams that share `bytes`: never below what each side may send
// unasked.
constexpr size_t WindowShare(size_t bytes, size_t streams) { return std::max(bytes / streams, size_t{kFirstCreditBytes}); }
inline constexpr size_t kMessageBytes = 1 << 20;  // queued records travel together up to about this

// Records with parts of tensors need credit; all others are control records.
constexpr bool NeedsCredit(WireOp op) {
  return op == WireOp::kAssign || op == WireOp::kValues || op == WireOp::kPush || op == WireOp::kParameters || op == WireOp::kSum ||
         op == WireOp::kResult || op == WireOp::kNewer;
}
constexpr int64_t CreditOf(const WireHeader& header) { return static_cast<int64_t>(kWireHeaderBytes) + header.length; }

// The records that one side has to send. Not thread-safe.
//
// Records leave in the order in which they were added; heartbeats overtake them. A record that
// needs credit leaves while the credit is above 0, and takes it below 0 at most once. So the
// longest record needs no more credit than the shortest.
class SendQueue {
 public:
  // With `more` the records may wait for the next Add. ResourceExhausted: the other side has left
  // too many records unread.
  absl::Status Add(std::vector<Record> records, bool more);
  void Grant(uint64_t bytes);
  // The next message can be taken.
  bool HasNext() const;
  // The records of the next message, about kMessageBytes or one longer record.
  std::vector<Record> Take();
  bool empty() const { return urgent_.empty() && queue_.empty(); }
  // Ends the waiting for company.
  void Uncork() { corked_ = false; }
  // Takes everything out, for the caller to release outside its lock.
  std::deque<Record> Clear();

 private:
  bool FrontMayLeave() const;

  std::deque<Record> urgent_;  // at most one heartbeat
  std::deque<Record> queue_;
  int64_t queued_bytes_ = 0;   // of queue_
  int64_t control_bytes_ = 0;  // of queue_, without records that need credit
  int64_t credit_ = kFirstCreditBytes;
  bool corked_ = false;
};

// The credit that one side gives the other. Not thread-safe.
//
// In use are the bytes that were received and not released yet. Credit is granted so that it makes,
// with the bytes in use, one window. A loan widens the window by what is in use now; what is
// released pays the loan back first.
class ReceiveWindow {
 public:
  explicit ReceiveWindow(size_t bytes) : window_(static_cast<int64_t>(bytes)) {}

  // ResourceExhausted: the other side had no credit.
  absl::Status Received(int64_t bytes);
  void Released(int64_t bytes);
  void SetWindow(size_t bytes) { window_ = static_cast<int64_t>(bytes); }
  // The other side has used up its credit.
  bool starved() const { return credit_ <= 0; }
  void Lend() { lent_ = in_use_; }
  // There is enough to grant to be worth a record. Never before the other side has sent a record
  // that needs credit.
  bool due() const { return used_ && Missing() > 0 && 4 * Missing() >= window_; }
  // How much to grant now.
  uint64_t TakeGrant();

 private:
  int64_t Missing() const { return window_ + lent_ - in_use_ - credit_; }

  int64_t window_;
  int64_t in_use_ = 0;
  int64_t lent_ = 0;
  int64_t credit_ = kFirstCreditBytes;  // that the other side has
  bool used_ = false;
};

}  // namespace trainyard::engine
