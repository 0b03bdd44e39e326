#include "trainer/transport/grpc_stream.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "trainer/transport/framing.h"

namespace trainyard::engine {
namespace {

constexpr std::chrono::seconds kCloseDeadline{10};  // after Close, without anything sent

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

grpc::ByteBuffer ToByteBuffer(const std::vector<Record>& records) {
  std::vector<grpc::Slice> slices;
  for (const Record& record : records) {
    const auto header = Encode(record.header);
    slices.emplace_back(header.data(), header.size());
    for (const std::span<const std::byte> piece : record.payload.pieces()) slices.push_back(ToSlice(piece, record.payload.owner()));
  }
  return {slices.data(), slices.size()};
}

}  // namespace

void GrpcStream::Open() {
  self_ = shared_from_this();
  {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  StartReading(&incoming_);
  Pump(What::kAll);
}

void GrpcStream::Close(const absl::Status& status) {
  if (!StartClosing(status)) return;
  SetCloseAlarm();
  Pump(What::kAll);
}

void GrpcStream::SetCloseAlarm() {
  const int64_t sent = traffic().bytes_sent;
  auto alarm = std::make_unique<grpc::Alarm>();
  alarm->Set(std::chrono::system_clock::now() + kCloseDeadline, [weak = weak_from_this(), sent](bool late) {
    const auto stream = late ? std::static_pointer_cast<GrpcStream>(weak.lock()) : nullptr;
    if (stream == nullptr) return;
    if (stream->traffic().bytes_sent > sent) {
      stream->SetCloseAlarm();
    } else {
      stream->Abort();
    }
  });
  absl::MutexLock lock(&mutex_);
  if (!ended_) std::swap(alarm, close_alarm_);
}

void GrpcStream::Abort() {
  StopWriting();
  {
    absl::MutexLock lock(&mutex_);
    if (ended_) return;
    closing_ = true;
    Cancel();
  }
  Pump(What::kAll);
}

void GrpcStream::StopWriting() {
  {
    absl::MutexLock lock(&mutex_);
    write_failed_ = true;
  }
  DropQueue();
}

GrpcStream::Action GrpcStream::Decide(What what, std::vector<Record>& records) {
  if (!open_ || finishing_ || writing_ || half_close_pending_) return Action::kNothing;
  const bool can_write = !write_failed_ && !read_ended_ && !half_closed_;
  if (can_write && HasMessage(what)) {
    writing_ = true;
    records = TakeMessage(what);
    return Action::kWrite;
  }
  if (what != What::kAll) return Action::kNothing;
  const bool sent = closing_ && (queue_.empty() || !can_write);
  if (dialled_ && can_write && sent) {
    half_closed_ = half_close_pending_ = true;
    return Action::kHalfClose;
  }
  // The dialler waits for the other side's end, the other side ends when it has nothing left to
  // send.
  if (read_ended_ || (!dialled_ && sent)) {
    finishing_ = true;
    return Action::kFinish;
  }
  return Action::kNothing;
}

void GrpcStream::Pump(What what) {
  std::vector<Record> records;
  Action action;
  {
    absl::MutexLock lock(&mutex_);
    action = Decide(what, records);
  }
  switch (action) {
    case Action::kNothing:
      return;
    case Action::kWrite:
      FillLate(records);
      outgoing_ = ToByteBuffer(records);
      StartWriting(&outgoing_);
      return;
    case Action::kHalfClose:
      StartHalfClose();
      return;
    case Action::kFinish:
      StartFinish();
      return;
  }
}

void GrpcStream::OnRead(bool ok) {
  if (ok) {
    const size_t bytes = incoming_.Length();
    Receive(ParseMessage(ToPayload(incoming_)), bytes);
    StartReading(&incoming_);
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    read_ended_ = true;
  }
  Pump(What::kAll);
}

void GrpcStream::OnWritten(bool ok) {
  outgoing_.Clear();
  if (!ok) StopWriting();
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
  }
  Pump(What::kAll);
}

void GrpcStream::OnHalfClosed() {
  {
    absl::MutexLock lock(&mutex_);
    half_close_pending_ = false;
  }
  Pump(What::kAll);
}

void GrpcStream::OnEnded(const absl::Status& status) {
  const std::shared_ptr<FlowStream> self = std::move(self_);
  const std::shared_ptr<StreamCount> count = count_;
  absl::Status reason;
  std::unique_ptr<grpc::Alarm> alarm;
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    ended_ = true;
    reason = reason_.ok() ? status : reason_;
    alarm = std::move(close_alarm_);
  }
  DropQueue();
  Release();
  std::exchange(handler_, nullptr)->OnClosed(self, reason);
  count->Remove();
}

}  // namespace trainyard::engine
