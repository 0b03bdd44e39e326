#include "trainer/transport/grpc_lane.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/transport/framing.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMessageBytes = 1 << 20;     // queued records travel together up to about this
constexpr size_t kHighWaterBytes = 64 << 20;  // with more than this unsent, reading pauses

// Shares memory with the payload; its owner is let go when gRPC is done with the slice.
grpc::Slice ToSlice(std::span<const std::byte> piece, const std::shared_ptr<const void>& owner) {
  auto* held = new std::shared_ptr<const void>(owner);
  return {const_cast<std::byte*>(piece.data()), piece.size(),
          [](void* pointer) { delete static_cast<std::shared_ptr<const void>*>(pointer); }, held};
}

Payload ToPayload(grpc::ByteBuffer& message) {
  auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!message.Dump(slices.get()).ok()) return {};
  message.Clear();
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(slices->size());
  for (const grpc::Slice& slice : *slices) pieces.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  return {std::move(pieces), std::move(slices)};
}

}  // namespace

void GrpcLane::Send(std::vector<Record> records, bool more) {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_ || ended_ || write_failed_) return;
    for (Record& record : records) {
      TY_CHECK(record.header.length == record.payload.size());
      queued_bytes_ += kWireHeaderBytes + record.payload.size();
      queue_.push_back(std::move(record));
    }
    corked_ = more;
    next = Decide();
  }
  Do(next);
}

void GrpcLane::Close(const absl::Status& status) {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    if (closing_ || ended_) return;
    closing_ = true;
    corked_ = false;
    if (!status.ok()) {
      queue_.clear();
      queue_.push_back(ErrorRecord(status));
      queued_bytes_ = kWireHeaderBytes + queue_.back().payload.size();
    }
    next = Decide();
  }
  Do(next);
}

void GrpcLane::Abort() {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    if (ended_ || finished_) return;
    closing_ = true;
    write_failed_ = true;
    queue_.clear();
    queued_bytes_ = 0;
    Cancel();
    next = Decide();
  }
  Do(next);
}

LaneTraffic GrpcLane::traffic() const {
  absl::MutexLock lock(&mutex_);
  return traffic_;
}

void GrpcLane::OnStarted() {
  {
    absl::MutexLock lock(&mutex_);
    started_ = true;
    reading_ = true;
  }
  Do(Read());
}

GrpcLane::Next GrpcLane::Read() {
  StartRead(&incoming_, &read_event_);
  absl::MutexLock lock(&mutex_);
  return Decide();
}

void GrpcLane::OnStartFailed() {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    started_ = true;
    read_ended_ = true;
    write_failed_ = true;
    next = Decide();
  }
  Do(next);
}

GrpcLane::Next GrpcLane::Decide() {
  if (!started_ || ended_) return {};
  if (finished_) {
    if (reading_ || writing_ || half_close_pending_) return {};
    ended_ = true;
    return {.action = Action::kEnd, .message = {}};
  }
  if (finishing_ || writing_ || half_close_pending_) return {};
  const bool can_write = !write_failed_ && !read_ended_;
  if (can_write && !queue_.empty() && (!corked_ || queued_bytes_ >= kMessageBytes)) {
    std::vector<grpc::Slice> slices;
    size_t bytes = 0;
    do {
      const Record& record = queue_.front();
      const auto header = Encode(record.header);
      slices.emplace_back(header.data(), header.size());
      for (const std::span<const std::byte> piece : record.payload.pieces()) slices.push_back(ToSlice(piece, record.payload.owner()));
      bytes += kWireHeaderBytes + record.payload.size();
      queue_.pop_front();
    } while (!queue_.empty() && bytes + queue_.front().payload.size() <= kMessageBytes);
    queued_bytes_ -= bytes;
    ++traffic_.messages_sent;
    traffic_.bytes_sent += static_cast<int64_t>(bytes);
    writing_ = true;
    return {.action = Action::kWrite, .message = grpc::ByteBuffer(slices.data(), slices.size())};
  }
  if (closing_ && can_write && !half_closing_ && !FinishesFirst()) {
    half_closing_ = true;
    half_close_pending_ = true;
    return {.action = Action::kHalfClose, .message = {}};
  }
  if (read_ended_ || (closing_ && FinishesFirst())) {
    finishing_ = true;
    return {.action = Action::kFinish, .message = {}};
  }
  return {};
}

void GrpcLane::Do(const Next& next) {
  switch (next.action) {
    case Action::kNothing:
      return;
    case Action::kWrite:
      StartWrite(next.message, &written_event_);
      return;
    case Action::kHalfClose:
      if (!StartHalfClose(&half_closed_event_)) OnHalfClosed(true);
      return;
    case Action::kFinish:
      StartFinish(&finished_event_);
      return;
    case Action::kEnd:
      break;
  }
  const std::shared_ptr<GrpcLane> self = std::move(self_);
  absl::Status status;
  bool finished_ok = false;
  {
    absl::MutexLock lock(&mutex_);
    status = reason_;
    finished_ok = finished_ok_;
    queue_.clear();
  }
  if (status.ok()) status = FinishStatus(finished_ok);
  Release();
  std::exchange(handler_, nullptr)->OnClosed(self, status);
  count_.Remove();
}

// Cuts the message into records and hands them on; what the other side did wrong ends the lane.
void GrpcLane::Deliver(grpc::ByteBuffer& message) {
  const size_t bytes = message.Length();
  absl::StatusOr<std::vector<Record>> records = ParseMessage(ToPayload(message));
  {
    absl::MutexLock lock(&mutex_);
    ++traffic_.messages_received;
    traffic_.bytes_received += static_cast<int64_t>(bytes);
    if (closing_) return;  // drains what was on its way
  }
  if (!records.ok()) {
    Fail(records.status());
    return;
  }
  std::span<Record> good(*records);
  absl::Status error;
  for (size_t i = 0; i < good.size(); ++i) {
    if (good[i].header.op != WireOp::kError) continue;
    error = StatusOf(good[i]);
    good = good.first(i);
  }
  if (!good.empty()) handler_->OnMessage(shared_from_this(), good);
  if (!error.ok()) {
    absl::MutexLock lock(&mutex_);
    reason_ = error;
    closing_ = true;
    queue_.clear();
  }
}

void GrpcLane::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (reason_.ok()) reason_ = status;
  }
  Close(status);
}

void GrpcLane::OnRead(bool ok) {
  if (ok) Deliver(incoming_);
  std::optional<Next> next;  // nothing: reads on first
  {
    absl::MutexLock lock(&mutex_);
    read_ended_ = !ok;
    read_paused_ = ok && queued_bytes_ > kHighWaterBytes && !finishing_;
    reading_ = ok && !read_paused_;
    if (!reading_) next = Decide();
  }
  Do(next ? *next : Read());
}

void GrpcLane::OnWritten(bool ok) {
  std::optional<Next> next;  // nothing: reads on first
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) {
      write_failed_ = true;
      queue_.clear();
      queued_bytes_ = 0;
    }
    if (read_paused_ && queued_bytes_ <= kHighWaterBytes) {
      read_paused_ = false;
      reading_ = true;
    } else {
      next = Decide();
    }
  }
  Do(next ? *next : Read());
}

void GrpcLane::OnHalfClosed(bool ok) {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    half_close_pending_ = false;
    if (!ok) write_failed_ = true;
    next = Decide();
  }
  Do(next);
}

void GrpcLane::OnFinished(bool ok) {
  Next next;
  {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    finished_ok_ = ok;
    next = Decide();
  }
  Do(next);
}

}  // namespace trainyard::engine
