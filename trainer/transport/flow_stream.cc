#include "trainer/transport/flow_stream.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/check.h"
#include "trainer/transport/framing.h"

namespace trainyard::engine {

// Owns a received payload; its end gives the bytes back to the window.
class FlowStream::Loan {
 public:
  Loan(std::weak_ptr<FlowStream> stream, std::shared_ptr<const void> memory, int64_t bytes)
      : stream_(std::move(stream)), memory_(std::move(memory)), bytes_(bytes) {}
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    memory_.reset();
    if (const std::shared_ptr<FlowStream> stream = stream_.lock()) stream->Released(bytes_);
  }

 private:
  const std::weak_ptr<FlowStream> stream_;
  std::shared_ptr<const void> memory_;
  const int64_t bytes_;
};

void FlowStream::Send(std::vector<Record> records, bool more) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_) return;
    status = queue_.Add(std::move(records), more);
  }
  if (!status.ok()) {
    Fail(status);
  } else {
    Pump(What::kAll);
  }
}

void FlowStream::SetWindow(size_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    window_.SetWindow(bytes);
    if (closing_ || !window_.due()) return;
  }
  Pump(What::kAll);
}

void FlowStream::LendIfStarved() {
  {
    absl::MutexLock lock(&mutex_);
    if (closing_ || !window_.starved()) return;
    window_.Lend();
  }
  Pump(What::kAll);
}

void FlowStream::Released(int64_t bytes) {
  {
    absl::MutexLock lock(&mutex_);
    window_.Released(bytes);
    if (closing_ || !window_.due()) return;
  }
  Pump(What::kCredit);
}

StreamTraffic FlowStream::traffic() const {
  absl::MutexLock lock(&mutex_);
  return traffic_;
}

std::vector<Record> FlowStream::TakeMessage(What what) {
  std::vector<Record> records;
  if (!closing_ && window_.due()) {
    WireHeader credit;
    credit.op = WireOp::kCredit;
    credit.step = window_.TakeGrant();
    records.push_back({credit, {}});
  }
  if (what == What::kAll && queue_.HasNext()) {
    for (Record& record : queue_.Take()) records.push_back(std::move(record));
  }
  ++traffic_.messages_sent;
  for (const Record& record : records) traffic_.bytes_sent += CreditOf(record.header);
  return records;
}

void FlowStream::FillLate(std::vector<Record>& records) {
  for (Record& record : records) {
    if (record.late == nullptr) continue;
    record.payload = std::exchange(record.late, nullptr)(record.header);
    TY_CHECK(record.header.length == record.payload.size());
  }
}

void FlowStream::Receive(absl::StatusOr<std::vector<Record>> message, size_t bytes) {
  absl::Status bad = message.status();
  absl::Status told;
  std::vector<Record> records;
  {
    absl::MutexLock lock(&mutex_);
    const bool first = traffic_.messages_received++ == 0;
    traffic_.bytes_received += static_cast<int64_t>(bytes);
    if (closing_) return;  // drains what was on its way
    if (first && bytes > first_message_bytes_) {
      bad = absl::InvalidArgumentError(fmt::format("the first message has {} bytes, expected at most {}", bytes, first_message_bytes_));
    }
    for (size_t i = 0; bad.ok() && told.ok() && i < message->size(); ++i) {
      Record& record = (*message)[i];
      if (record.header.op == WireOp::kCredit) {
        queue_.Grant(record.header.step);
      } else if (record.header.op == WireOp::kError) {
        told = StatusOf(record);
      } else {
        if (NeedsCredit(record.header.op)) {
          bad = window_.Received(CreditOf(record.header));
          if (!bad.ok()) break;
          record.payload.HoldBy(std::make_shared<const Loan>(weak_from_this(), record.payload.owner(), CreditOf(record.header)));
        }
        records.push_back(std::move(record));
      }
    }
  }
  if (!records.empty()) handler_->OnMessage(shared_from_this(), records);
  records.clear();
  if (!told.ok()) {
    std::deque<Record> dropped;
    absl::MutexLock lock(&mutex_);
    reason_ = told;
    closing_ = true;
    dropped = queue_.Clear();
  }
  if (!bad.ok()) {
    Fail(bad);
  } else {
    Pump(What::kAll);
  }
}

void FlowStream::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (reason_.ok()) reason_ = status;
  }
  Close(status);
}

bool FlowStream::StartClosing(const absl::Status& status) {
  std::deque<Record> dropped;
  absl::MutexLock lock(&mutex_);
  if (closing_) return false;
  closing_ = true;
  queue_.Uncork();
  if (status.ok()) return true;
  dropped = queue_.Clear();
  std::vector<Record> error;
  error.push_back(ErrorRecord(status));
  (void)queue_.Add(std::move(error), /*more=*/false);  // one record always fits
  return true;
}

void FlowStream::DropQueue() {
  std::deque<Record> dropped;
  absl::MutexLock lock(&mutex_);
  dropped = queue_.Clear();
}

}  // namespace trainyard::engine
