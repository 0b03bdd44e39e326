// How replicas reach each other. A lane is one ordered, two-way stream of messages; a message is one or more records that travel together.
// Implementations: grpc_transport.h (between hosts), inproc_transport.h (tests: ranks are threads). One test suite holds them all.
#pragma once

#include <cstdint>
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
};

struct LaneTraffic {
  int64_t messages_sent = 0;
  int64_t bytes_sent = 0;
  int64_t messages_received = 0;
  int64_t bytes_received = 0;
};

// Thread-safe. Lives until both sides are done with it; an open lane is kept alive by its transport.
class Lane {
 public:
  virtual ~Lane() = default;
  // Queues records and returns at once. They arrive in order or not at all. With `more` they may wait for the next Send so as to share a
  // message with it; small records should. After the end of the lane they are dropped.
  virtual void Send(std::vector<Record> records, bool more = false) = 0;
  // OK: sends what is queued, then ends the lane. Else drops what is queued and tells the other side why. Returns at once.
  virtual void Close(const absl::Status& status) = 0;
  // Ends the lane now; the other side sees it as lost. Payloads are released soon after.
  virtual void Abort() = 0;
  // The other side's address, for messages.
  virtual std::string peer() const = 0;
  virtual LaneTraffic traffic() const = 0;
};

// What one side does with what arrives. Calls for one lane come one after the other, from a thread of the transport: they must not block.
class LaneHandler {
 public:
  virtual ~LaneHandler() = default;
  // A listener has accepted the lane: its first call. Whoever opens lanes and never speaks is the handler's to turn away.
  virtual void OnOpened(const std::shared_ptr<Lane>& /*lane*/) {}
  // The headers have passed Decode and the payload is complete; whether they make sense is for the handler to check.
  virtual void OnMessage(const std::shared_ptr<Lane>& lane, std::span<Record> records) = 0;
  // The lane's last call, exactly once. OK: the other side closed it so. Otherwise why: Unavailable (lost, refused, never reached), or the
  // status that the other side gave.
  virtual void OnClosed(const std::shared_ptr<Lane>& lane, const absl::Status& status) = 0;
};

// Accepts lanes until it is destroyed, which ends them all and returns after the last OnClosed.
class Listener {
 public:
  virtual ~Listener() = default;
  // Where it listens: host:port, with the port that port 0 became.
  virtual std::string address() const = 0;
};

// Thread-safe. Destroying it ends its lanes and joins its threads, after the last OnClosed.
class Transport {
 public:
  virtual ~Transport() = default;
  // Starts a lane to `address` and returns at once. Sending may begin at once. An address that does not answer within `deadline` shows in
  // OnClosed.
  virtual std::shared_ptr<Lane> Dial(const std::string& address, std::shared_ptr<LaneHandler> handler, absl::Duration deadline) = 0;
  // `handler` gets the lanes of every peer. Unavailable says why an address cannot be listened at.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<LaneHandler> handler) = 0;
};

}  // namespace trainyard::engine
