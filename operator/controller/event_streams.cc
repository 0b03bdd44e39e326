#include "operator/controller/event_streams.h"

#include <utility>

#include "operator/base/clock.h"

namespace trainyard::control {
namespace {

constexpr size_t kBlock = 4 << 10;

// A comment: its sending shows whether the reader is still there.
const std::shared_ptr<const std::string>& Heartbeat() {
  static const auto* const text = new std::shared_ptr<const std::string>(std::make_shared<const std::string>(":\n\n"));
  return *text;
}

}  // namespace

MHD_Response* EventStreams::Open(MHD_Connection* connection, std::unique_ptr<EventSource> source) {
  const absl::Duration now = RealClock().Monotonic();
  MutexLock lock(mutex_);
  if (streams_.size() >= options_.most || stopping_) return nullptr;
  // Free deletes it.
  auto* stream = new Stream{
      .owner = *this, .connection = connection, .source = std::move(source), .opened = now, .began = now, .text = {}, .place = {}};
  stream->place = streams_.insert(streams_.end(), stream);
  MHD_Response* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, kBlock, &EventStreams::Read, stream, &Free);
  if (response == nullptr) {
    streams_.erase(stream->place);
    delete stream;
  }
  return response;
}

void EventStreams::Wake() {
  MutexLock lock(mutex_);
  ++wakes_;
  for (Stream* stream : streams_) {
    if (std::exchange(stream->suspended, false)) MHD_resume_connection(stream->connection);
  }
}

void EventStreams::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  Wake();
}

bool EventStreams::Fill(Stream& stream, bool& ended) {
  while (true) {
    uint64_t wakes;
    {
      MutexLock lock(mutex_);
      wakes = wakes_;
      ended = stopping_ || RealClock().Monotonic() - stream.opened > options_.longest;
    }
    if (ended) return false;
    stream.text = stream.source->Next();
    const absl::Duration now = RealClock().Monotonic();
    if (stream.text == nullptr && now - stream.began >= options_.heartbeat) stream.text = Heartbeat();
    if (stream.text != nullptr) {
      stream.sent = 0;
      stream.began = now;
      return true;
    }
    MutexLock lock(mutex_);
    if (wakes != wakes_) continue;
    stream.suspended = true;
    MHD_suspend_connection(stream.connection);
    return false;
  }
}

ssize_t EventStreams::Read(void* self, uint64_t /*position*/, char* bytes, size_t most) {
  Stream& stream = *static_cast<Stream*>(self);
  EventStreams& owner = stream.owner;
  if (stream.text == nullptr) {
    bool ended = false;
    if (!owner.Fill(stream, ended)) return ended ? MHD_CONTENT_READER_END_OF_STREAM : 0;
  } else if (RealClock().Monotonic() - stream.began > owner.options_.slowest) {
    return MHD_CONTENT_READER_END_WITH_ERROR;
  }
  const size_t count = stream.text->copy(bytes, most, stream.sent);
  stream.sent += count;
  if (stream.sent == stream.text->size()) stream.text = nullptr;
  return static_cast<ssize_t>(count);
}

void EventStreams::Free(void* self) {
  const std::unique_ptr<Stream> stream(static_cast<Stream*>(self));
  MutexLock lock(stream->owner.mutex_);
  stream->owner.streams_.erase(stream->place);
}

}  // namespace trainyard::control
