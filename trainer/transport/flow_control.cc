#include "trainer/transport/flow_control.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostRecords = 1 << 20;        // unsent; a server's share of 500 GB has that many parts
constexpr int64_t kMostControlBytes = 4 << 20;  // unsent
constexpr int64_t kMostCredit = int64_t{1} << 40;

}  // namespace

absl::Status SendQueue::Add(std::vector<Record> records, bool more) {
  for (Record& record : records) {
    TY_CHECK(record.late != nullptr || record.header.length == record.payload.size());
    if (record.header.op == WireOp::kHeartbeat) {
      urgent_.clear();  // the newest one tells everything
      urgent_.push_back(std::move(record));
      continue;
    }
    queued_bytes_ += CreditOf(record.header);
    if (!NeedsCredit(record.header.op)) control_bytes_ += CreditOf(record.header);
    queue_.push_back(std::move(record));
  }
  corked_ = more;
  if (queue_.size() <= kMostRecords && control_bytes_ <= kMostControlBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} records wait to be sent, {} bytes of them control records: the other side does not read", queue_.size(), control_bytes_));
}

void SendQueue::Grant(uint64_t bytes) {
  credit_ = std::min(credit_ + static_cast<int64_t>(std::min<uint64_t>(bytes, kMostCredit)), kMostCredit);
}

bool SendQueue::FrontMayLeave() const { return !queue_.empty() && (credit_ > 0 || !NeedsCredit(queue_.front().header.op)); }

bool SendQueue::HasNext() const {
  if (!urgent_.empty()) return true;
  return FrontMayLeave() && (!corked_ || queued_bytes_ >= static_cast<int64_t>(kMessageBytes));
}

std::vector<Record> SendQueue::Take() {
  std::vector<Record> message(std::make_move_iterator(urgent_.begin()), std::make_move_iterator(urgent_.end()));
  urgent_.clear();
  size_t bytes = 0;
  while (FrontMayLeave() && (bytes == 0 || bytes + queue_.front().header.length <= kMessageBytes)) {
    Record& record = queue_.front();
    const int64_t size = CreditOf(record.header);
    bytes += static_cast<size_t>(size);
    queued_bytes_ -= size;
    (NeedsCredit(record.header.op) ? credit_ : control_bytes_) -= size;
    message.push_back(std::move(record));
    queue_.pop_front();
  }
  return message;
}

std::deque<Record> SendQueue::Clear() {
  urgent_.clear();
  queued_bytes_ = control_bytes_ = 0;
  corked_ = false;
  return std::exchange(queue_, {});
}

absl::Status ReceiveWindow::Received(int64_t bytes) {
  used_ = true;
  if (credit_ <= 0) {
    return absl::ResourceExhaustedError(fmt::format("the other side sends {} bytes without credit: it had {} left", bytes, credit_));
  }
  credit_ -= bytes;
  in_use_ += bytes;
  return absl::OkStatus();
}

void ReceiveWindow::Released(int64_t bytes) {
  in_use_ -= bytes;
  lent_ = std::max<int64_t>(0, lent_ - bytes);
}

uint64_t ReceiveWindow::TakeGrant() {
  const int64_t grant = std::max<int64_t>(0, Missing());
  credit_ += grant;
  return static_cast<uint64_t>(grant);
}

}  // namespace trainyard::engine
