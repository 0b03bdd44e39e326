// The common part of every transport's streams: the queue, credit both ways, the records that only
// the stream layer sees.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/flow_control.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// A transport adds how a message travels. After every change Pump() is called without the lock, and
// takes messages while there are any. Messages that arrive go to Receive(). Payloads are released
// outside the lock, since their owners may be streams.
//
// A handshake (which peer may talk) belongs between Receive() and the handler, and before the first
// record of the queue: everything passes here.
class FlowStream : public Stream, public std::enable_shared_from_this<FlowStream> {
 public:
  void Send(std::vector<Record> records, bool more) final;
  void SetWindow(size_t bytes) final;
  void LendIfStarved() final;
  std::string peer() const final { return peer_; }
  StreamTraffic traffic() const final;

 protected:
  // `first_message_bytes`: a longer first message ends the stream.
  FlowStream(std::string peer, std::shared_ptr<StreamHandler> handler, size_t window_bytes, size_t first_message_bytes)
      : handler_(std::move(handler)), peer_(std::move(peer)), first_message_bytes_(first_message_bytes), window_(window_bytes) {}

  // A payload can be released anywhere, also under a lock that late records need: then only credit
  // may be sent at once.
  enum class What { kAll, kCredit };
  virtual void Pump(What what) = 0;

  // A message can be taken now.
  bool HasMessage(What what) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return (what == What::kAll && queue_.HasNext()) || (!closing_ && window_.due());
  }
  // The next message: credit that is due, then records from the queue. FillLate must follow,
  // outside the lock.
  std::vector<Record> TakeMessage(What what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void FillLate(std::vector<Record>& records);

  // Takes a message: credit is taken in, an error ends the stream, the rest goes to the handler.
  void Receive(absl::StatusOr<std::vector<Record>> message, size_t bytes);
  // Tells the other side what it did wrong, and the handler.
  void Fail(const absl::Status& status);
  // Stops queueing; an error is all that is still sent. False: that was done before.
  bool StartClosing(const absl::Status& status);
  // Drops what is queued; nothing is sent any more.
  void DropQueue();

  std::shared_ptr<StreamHandler> handler_;
  mutable absl::Mutex mutex_;
  SendQueue queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);  // what the other side said or did wrong

 private:
  class Loan;
  void Released(int64_t bytes);

  const std::string peer_;
  const size_t first_message_bytes_;
  ReceiveWindow window_ ABSL_GUARDED_BY(mutex_);
  StreamTraffic traffic_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
