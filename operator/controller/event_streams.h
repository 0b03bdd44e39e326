// EventStreams: the open streams of server-sent events of one HttpServer.
#pragma once

#include <microhttpd.h>

#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/mutex.h"
#include "operator/controller/page_handler.h"

namespace trainyard::control {

struct EventStreamOptions {
  size_t most = 0;                             // open at once
  absl::Duration longest = absl::Minutes(10);  // then a stream ends; browsers open the next by themselves
  absl::Duration slowest = absl::Seconds(20);  // to send one text; a reader that takes longer is cut off
  absl::Duration heartbeat = absl::Seconds(10);
};

// A stream costs its connection and the text that it sends, no thread and no queue: its source
// joins what changed meanwhile into one text. Where nothing is new its connection is suspended, so
// that the event loop does not see it. Open is the event loop's; Wake and Stop are thread-safe.
class EventStreams {
 public:
  explicit EventStreams(EventStreamOptions options) : options_(options) {}
  EventStreams(const EventStreams&) = delete;
  EventStreams& operator=(const EventStreams&) = delete;

  // An answer that never ends by itself; null: `most` are open.
  MHD_Response* Open(MHD_Connection* connection, std::unique_ptr<EventSource> source);
  // Asks all sources that had nothing new once more.
  void Wake();
  // No connection is suspended any more, and every stream ends with its next text. Before the
  // daemon stops.
  void Stop();

 private:
  struct Stream {
    EventStreams& owner;
    MHD_Connection* connection;
    std::unique_ptr<EventSource> source;
    const absl::Duration opened;
    absl::Duration began;                     // to send `text`; without a text the last one
    std::shared_ptr<const std::string> text;  // null: all is sent
    size_t sent = 0;
    bool suspended = false;  // guarded by the owner's mutex
    std::list<Stream*>::iterator place;
  };

  static ssize_t Read(void* self, uint64_t position, char* bytes, size_t most);
  static void Free(void* self);
  // Whether the stream has a text to send. If not, it is suspended or at its end.
  bool Fill(Stream& stream, bool& ended);

  const EventStreamOptions options_;
  Mutex mutex_;
  std::list<Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  uint64_t wakes_ ABSL_GUARDED_BY(mutex_) = 0;  // a wake between a question and its suspension is not lost
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::control
