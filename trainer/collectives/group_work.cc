// GroupCore: the operation in hand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "trainer/base/check.h"
#include "trainer/base/clock.h"
#include "trainer/collectives/group_core.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kPollFor = absl::Microseconds(200);

OperationId IdOf(const WireHeader& header) {
  using enum OperationId::Kind;
  const bool slots = (header.flags & kWireFlagSlots) != 0;
  const bool start = (header.flags & kWireFlagStart) != 0;
  const bool rows = (header.flags & kWireFlagRows) != 0;
  return {.step = static_cast<int64_t>(header.step), .kind = slots ? kSlots : start ? kState : rows ? kRows : kReduce};
}

uint32_t FlagsOf(OperationId id) {
  switch (id.kind) {
    case OperationId::Kind::kState:
      return kWireFlagStart;
    case OperationId::Kind::kSlots:
      return kWireFlagSlots;
    case OperationId::Kind::kRows:
      return kWireFlagRows;
    case OperationId::Kind::kReduce:
      return 0;
  }
  return 0;
}

}  // namespace

absl::Status GroupCore::RefuseEarlier(int rank, const WireHeader& header) const {
  const OperationId id = IdOf(header);
  if (header.epoch == group_ && !(id < last_)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{}: a part of step {} of group {}, expected step {} or later of group {}", Name(rank),
                                                id.step, header.epoch, last_.step, group_));
}

absl::Status GroupCore::OnPart(Peer& peer, Record& record, Out& out) {
  const OperationId id = IdOf(record.header);
  if (state_ != State::kFormed || IsPastEnd(id)) {
    out.dropped.push_back(std::move(record));
    return absl::OkStatus();
  }
  if (const absl::Status status = RefuseEarlier(peer.rank, record.header); !status.ok()) return status;
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
  const bool past_caches = IsPastCaches(operation);
  Out out;
  {
    MutexLock lock(&mutex_);
    TY_CHECK(operation_ == nullptr);
    operation.Begin(id, past_caches);
    if (state_ != State::kFormed) return;
    operation_ = &operation;
    last_ = id;
    const bool profiled = options_.profile != nullptr && id.kind == OperationId::Kind::kReduce && options_.profile->Wants(id.step);
    begun_at_.assign(profiled ? operation.buckets() : 0, 0);
    std::vector<std::pair<int, Record>> later;
    for (auto& [rank, record] : std::exchange(early_, {})) {
      if (id < IdOf(record.header)) {
        later.emplace_back(rank, std::move(record));
        continue;
      }
      absl::Status placed = RefuseEarlier(rank, record.header);
      if (placed.ok()) placed = operation.Place(rank, record.header, std::move(record.payload));
      if (!placed.ok() && state_ == State::kFormed) Fail(placed, out);
    }
    if (state_ == State::kFormed) early_ = std::move(later);
  }
  Do(std::move(out));
}

bool GroupCore::IsPastCaches(const Operation& operation) const {
  const std::vector<std::shared_ptr<Stream>> streams = Streams();
  const auto sharing = static_cast<size_t>(std::ranges::count_if(streams, [](const auto& stream) { return stream->shares_memory(); }));
  return sharing > 0 && options_.last_cache > 0 && operation.bytes() > options_.last_cache / (sharing + 1);
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
      if (taken) ProfileBegin(*taken);
    }
    if (!taken) return;
    Operation::Sent sent = operation->GoOn(*taken);
    taken->parts.clear();  // gives their credit back
    Out out;
    {
      MutexLock lock(&mutex_);
      const OperationId id = operation->id();
      operation->Return(taken->bucket);
      ProfileEnd(*operation, taken->bucket);
      if (!sent.status.ok()) {
        Fail(sent.status, out);
      } else if (state_ == State::kFormed) {
        for (PartToSend& part : sent.sends) {
          const int peer = part.peer;
          SendTo(peers_.at(peer), PartRecord(sent.reduce ? WireOp::kSum : WireOp::kResult, id, taken->bucket, std::move(part)), out);
        }
      }
    }
    sent.sends.clear();
    Do(std::move(out));
  }
}

Record GroupCore::PartRecord(WireOp op, OperationId id, size_t bucket, PartToSend part) const {
  Record record = Control(op, id.step);
  record.header.flags = FlagsOf(id);
  record.header.key = static_cast<uint32_t>(bucket);
  record.header.slot = static_cast<uint16_t>(part.contributors);
  record.header.dtype = 0;
  record.header.offset = part.range.begin * sizeof(float);
  record.header.length = static_cast<uint32_t>(part.payload.size());
  record.payload = std::move(part.payload);
  return record;
}

bool GroupCore::BeginAsking(Operation& operation, int64_t step) {
  Out out;
  {
    MutexLock lock(&mutex_);
    TY_CHECK(operation_ == nullptr);
    if (state_ != State::kFormed) return false;
    last_ = {.step = step, .kind = OperationId::Kind::kSlots};
    operation.Begin(last_);
    operation_ = &operation;
    begun_at_.clear();
    ToAll(WireOp::kAsk, step, out);
  }
  Do(std::move(out));
  return true;
}

absl::Status GroupCore::OnAsk(Peer& peer, const WireHeader& header, Out& out) {
  const auto step = static_cast<int64_t>(header.step);
  if (peer.rank != 0 || !options_.on_ask || header.epoch != group_) {
    return absl::InvalidArgumentError(fmt::format("{}: 'ask', expected from rank 0 where the optimizer is sharded", Name(peer.rank)));
  }
  absl::StatusOr<std::vector<OfferedPart>> offered = options_.on_ask(step);
  if (!offered.ok()) {
    // Nobody has the slots of that step any more.
    Break(absl::AbortedError(offered.status().message()), out);
    return absl::OkStatus();
  }
  for (OfferedPart& part : *offered) {
    SendTo(peer, PartRecord(WireOp::kResult, {.step = step, .kind = OperationId::Kind::kSlots}, part.bucket, std::move(part.part)), out);
  }
  return absl::OkStatus();
}

void GroupCore::ProfileBegin(const Operation::Taken& taken) {
  if (!begun_at_.empty() && taken.begins) begun_at_[taken.bucket] = options_.profile->Now();
}

void GroupCore::ProfileEnd(const Operation& operation, size_t bucket) {
  if (begun_at_.empty() || !operation.done(bucket)) return;
  options_.profile->Add({.kind = SpanKind::kBucket,
                         .id = static_cast<int32_t>(bucket),
                         .step = operation.id().step,
                         .start = begun_at_[bucket],
                         .end = options_.profile->Now()});
}

void GroupCore::Abandon() {
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return operation_ == nullptr || operation_->taken() == 0; };
  MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));  // additions, which wait for nobody
  operation_ = nullptr;
}

std::vector<std::shared_ptr<Stream>> GroupCore::Streams() const {
  std::vector<std::shared_ptr<Stream>> streams;
  MutexLock lock(&mutex_);
  for (const auto& [rank, peer] : peers_) {
    if (peer.stream != nullptr) streams.push_back(peer.stream);
  }
  return streams;
}

std::vector<std::shared_ptr<Stream>> GroupCore::PolledStreams() const {
  std::vector<std::shared_ptr<Stream>> streams = Streams();
  if (static_cast<int>(streams.size()) >= options_.processors) streams.clear();
  return streams;
}

bool GroupCore::PollAll(std::span<const std::shared_ptr<Stream>> streams) {
  bool any = false;
  for (const std::shared_ptr<Stream>& stream : streams) any = stream->Poll() || any;
  return any;
}

bool GroupCore::PollUntilOver() {
  const std::vector<std::shared_ptr<Stream>> streams = PolledStreams();
  const absl::Time until = RealClock().Now() + kPollFor;
  while (PollAll(streams)) {
    {
      MutexLock lock(&mutex_);
      if (IsOver()) return true;
    }
    if (RealClock().Now() >= until) {
      for (const std::shared_ptr<Stream>& stream : streams) stream->EndPolling();
      return false;
    }
    std::this_thread::yield();  // other programs may want the processor
  }
  return false;
}

bool GroupCore::AwaitOperation(absl::Duration at_most) {
  if (PollUntilOver()) return true;
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return IsOver(); };
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

std::string GroupCore::DescribeLoans(const BorrowCount& loans) const {
  const std::vector<int> ranks = loans.Borrowers();
  if (ranks.empty()) return "";
  MutexLock lock(&mutex_);
  return fmt::format("{}: values for rank{} {}, not read yet",
                     operation_ != nullptr ? operation_->Describe() : fmt::format("step {}", last_.step), ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks, ", "));
}

void GroupCore::HastenReturns() {
  for (const std::shared_ptr<Stream>& stream : Streams()) stream->HastenReturns();
}

}  // namespace trainyard::engine
