// GroupCore: the operation in hand.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/collectives/group_core.h"

namespace trainyard::engine {
namespace {

OperationId IdOf(const WireHeader& header) {
  return {.step = static_cast<int64_t>(header.step), .reduces = (header.flags & kWireFlagStart) == 0};
}

}  // namespace

absl::Status GroupCore::OnPart(Peer& peer, Record& record, Out& out) {
  const OperationId id = IdOf(record.header);
  if (state_ != State::kFormed || IsPastEnd(id)) {
    out.dropped.push_back(std::move(record));
    return absl::OkStatus();
  }
  if (record.header.epoch != group_ || id < last_) {
    return absl::InvalidArgumentError(fmt::format("{}: a part of step {} of group {}, expected step {} or later of group {}",
                                                  Name(peer.rank), id.step, record.header.epoch, last_.step, group_));
  }
  if (operation_ == nullptr || id != operation_->id()) {
    if (id == last_) {
      return absl::InvalidArgumentError(fmt::format("{}: a part of step {}, which is done", Name(peer.rank), id.step));
    }
    early_.emplace_back(peer.rank, std::move(record));
    return absl::OkStatus();
  }
  progress_at_ = options_.clock->Now();
  out.work = true;
  return operation_->Place(peer.rank, record.header, std::move(record.payload));
}

void GroupCore::Begin(Operation& operation, OperationId id) {
  Out out;
  {
    MutexLock lock(&mutex_);
    TY_CHECK(operation_ == nullptr);
    operation.Begin(id);
    if (state_ != State::kFormed) return;
    operation_ = &operation;
    last_ = id;
    std::vector<std::pair<int, Record>> later;
    for (auto& [rank, record] : std::exchange(early_, {})) {
      if (id < IdOf(record.header)) {
        later.emplace_back(rank, std::move(record));
        continue;
      }
      const absl::Status placed = operation.Place(rank, record.header, std::move(record.payload));
      if (!placed.ok() && state_ == State::kFormed) Fail(placed, out);
    }
    if (state_ == State::kFormed) early_ = std::move(later);
  }
  Do(std::move(out));
}

void GroupCore::Contribute(size_t bucket, BucketValues values) {
  {
    MutexLock lock(&mutex_);
    if (operation_ == nullptr) return;
    operation_->Contribute(bucket, std::move(values));
  }
  Work();
}

void GroupCore::Work() {
  while (true) {
    Operation* operation = nullptr;
    std::optional<Operation::Taken> taken;
    {
      MutexLock lock(&mutex_);
      if (operation_ == nullptr || state_ != State::kFormed || IsPastEnd(operation_->id())) return;
      operation = operation_;
      taken = operation->TakeReady();
    }
    if (!taken) return;
    Operation::Sent sent = operation->GoOn(*taken);
    taken->parts.clear();  // gives their credit back
    Out out;
    {
      MutexLock lock(&mutex_);
      const OperationId id = operation->id();
      operation->Return(taken->bucket);
      if (!sent.status.ok()) {
        Fail(sent.status, out);
      } else if (state_ == State::kFormed) {
        for (PartToSend& part : sent.sends) {
          Record record = Control(sent.reduce ? WireOp::kSum : WireOp::kResult, id.step);
          record.header.flags = id.reduces ? 0 : kWireFlagStart;
          record.header.key = static_cast<uint32_t>(taken->bucket);
          record.header.slot = static_cast<uint16_t>(part.contributors);
          record.header.dtype = 0;
          record.header.offset = part.range.begin * sizeof(float);
          record.header.length = static_cast<uint32_t>(part.payload.size());
          record.payload = std::move(part.payload);
          SendTo(peers_.at(part.peer), std::move(record), out);
        }
      }
    }
    sent.sends.clear();
    Do(std::move(out));
  }
}

void GroupCore::Abandon() {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return operation_ == nullptr || operation_->taken() == 0; };
  MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));  // additions, which wait for nobody
  operation_ = nullptr;
}

bool GroupCore::AwaitOperation(absl::Duration at_most) {
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !status_.ok() || operation_ == nullptr || operation_->done() || IsPastEnd(operation_->id());
  };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&over), at_most);
}

bool GroupCore::ended() const {
  MutexLock lock(&mutex_);
  return IsPastEnd(last_) && (operation_ == nullptr || !operation_->done());
}

bool GroupCore::operation_done() const {
  MutexLock lock(&mutex_);
  return operation_ != nullptr && operation_->done();
}

absl::Time GroupCore::progress_at() const {
  MutexLock lock(&mutex_);
  return progress_at_;
}

std::string GroupCore::DescribeAwaited() const {
  MutexLock lock(&mutex_);
  return operation_ != nullptr ? operation_->DescribeAwaited() : "";
}

}  // namespace trainyard::engine
