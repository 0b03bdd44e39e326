// How replicas reach each other. A stream carries messages both ways, in order; a message is one or
// more records that travel together. Implementations: grpc_transport.h (between hosts),
// shared_memory_transport.h (between processes of one), inproc_transport.h (tests: ranks are
// threads). One test suite holds them all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/transport/payload.h"
#include "trainer/transport/wire.h"

namespace trainyard::engine {

// header.length must be payload.size().
struct Record {
  WireHeader header;
  Payload payload;
  // Instead of the payload: makes it, of header.length bytes, when the record's turn to be sent has
  // come. It may complete the header too. So records that wait hold no memory. Called at most once,
  // from any thread, without locks.
  std::function<Payload(WireHeader&)> late = nullptr;
};

struct StreamTraffic {
  int64_t messages_sent = 0;
  int64_t bytes_sent = 0;
  int64_t messages_received = 0;
  int64_t bytes_received = 0;
};

// The bounds of a stream's memory.
struct FlowOptions {
  size_t window_bytes = 32 << 20;         // of records with parts of tensors that are received and not released yet
  size_t first_message_bytes = 64 << 10;  // of an accepted stream: a longer one ends the stream
};

// Thread-safe. Lives until both sides are done with it; an open stream is kept alive by its
// transport.
//
// Reading never stops, however much is unsent; memory is bounded by credit instead. Records with
// parts of tensors (NeedsCredit in flow_control.h) are sent only while the receiver has granted
// bytes for them. It grants at most a window ahead of what it has released. A payload is released
// with its last copy. The sender keeps the others as they were queued: as references to the
// caller's memory, or late. All other records need no credit. So no two sides can wait for each
// other's reading, and a wait ends when received payloads are released.
class Stream {
 public:
  virtual ~Stream() = default;
  // Queues records and returns at once. They arrive in order or not at all; heartbeats overtake
  // others. With `more` they may wait for the next Send so as to share a message with it; small
  // records should. After the end of the stream they are dropped.
  virtual void Send(std::vector<Record> records, bool more = false) = 0;
  // OK: sends what is queued, then ends the stream. Else drops what is queued and tells the other
  // side why. Returns at once.
  virtual void Close(const absl::Status& status) = 0;
  // Ends the stream now; the other side sees it as lost. Payloads are released soon after.
  virtual void Abort() = 0;
  // How much may be received and not released, from now on.
  virtual void SetWindow(size_t bytes) = 0;
  // Where the other side has used up its credit: lets as much more come as is held here. For a
  // holder that releases only when more has come.
  virtual void LendIfStarved() = 0;
  // The owners of payloads that were sent are awaited: the stream lets go of each as soon as the
  // other side has read it. Until this is called it may do so with the next message instead.
  virtual void HastenReturns() {}
  // Hands the handler what has come, in the calling thread, which holds no lock that the handler
  // takes. For a caller that soon looks again: for some milliseconds the stream's own thread need
  // not be woken by the other side. False: the stream cannot do so, its own thread does it all.
  virtual bool Poll() { return false; }
  // The caller does not look any more.
  virtual void EndPolling() {}
  // Whether the other side reads this one's memory, and this one the other's: they share the
  // machine's caches.
  virtual bool shares_memory() const { return false; }
  // The other side has identified itself. A listener drops the oldest of too many streams that are
  // not trusted.
  virtual void Trust() {}
  // The other side's address, for messages.
  virtual std::string peer() const = 0;
  virtual StreamTraffic traffic() const = 0;
};

// A side's handler of what arrives. Calls for one stream come one after the other, from a thread of
// the transport or of a caller of Poll: they must not block.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // A listener has accepted the stream: its first call. The handler refuses a peer that opens
  // streams and never speaks.
  virtual void OnOpened(const std::shared_ptr<Stream>& /*stream*/) {}
  // A listener has closed a connection that did not become a stream. From a thread of the
  // listener's own.
  virtual void OnTurnedAway(const std::string& /*peer*/, const absl::Status& /*why*/) {}
  // The headers have passed Decode and the payload is complete. The handler checks whether they
  // make sense. Payloads that it keeps count against the stream's window until they are released.
  virtual void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) = 0;
  // The stream's last call, exactly once. OK: the other side closed it so. Otherwise why:
  // Unavailable (lost, refused, never reached), or the status that the other side gave.
  virtual void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) = 0;
};

// Accepts streams until it is destroyed. Destruction ends them all and returns after the last
// OnClosed, or says in the log after a deadline that a stream does not end.
class Listener {
 public:
  virtual ~Listener() = default;
  // Where it listens: host:port, with the port that port 0 became.
  virtual std::string address() const = 0;
};

// Thread-safe. Destroying it ends its streams and returns after the last OnClosed, or like a
// listener after a deadline.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts a stream to `address` and returns at once. Sending may begin at once. An address that
  // does not answer within `deadline` shows in OnClosed.
  virtual std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) = 0;
  // `handler` gets the streams of every peer. Unavailable says why an address cannot be listened
  // at.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) = 0;
};

}  // namespace trainyard::engine
