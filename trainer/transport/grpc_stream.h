// One gRPC call as a stream: what both ends share.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/flow_stream.h"
#include "trainer/transport/stream_count.h"

namespace trainyard::engine {

// Reads always; writes one message at a time; finishes when reading and writing are over. The
// callbacks of gRPC's reactors come in as OnRead, OnWritten, OnHalfClosed and OnEnded. An operation
// is started outside the lock, and only by the thread that has set its flag under the lock. So a
// thread that sends does not hold up the thread that receives.
class GrpcStream : public FlowStream {
 public:
  void Close(const absl::Status& status) override;
  void Abort() override;

 protected:
  GrpcStream(std::string peer, std::shared_ptr<StreamHandler> handler, size_t window_bytes, size_t first_message_bytes, bool dialled,
             std::shared_ptr<StreamCount> count)
      : FlowStream(std::move(peer), std::move(handler), window_bytes, first_message_bytes), dialled_(dialled), count_(std::move(count)) {
    count_->Add();
  }

  // The stream keeps itself alive from here to its end, and may write.
  void Open();
  // Before Open, of an accepted stream: the handler's first call.
  void TellOpened() { handler_->OnOpened(shared_from_this()); }

  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnHalfClosed();
  // gRPC's last callback.
  void OnEnded(const absl::Status& status);

  // The operations of the reactor.
  virtual void StartReading(grpc::ByteBuffer* message) = 0;
  virtual void StartWriting(const grpc::ByteBuffer* message) = 0;
  virtual void StartHalfClose() = 0;  // the dialler's "I send no more"
  virtual void StartFinish() = 0;     // no operation follows
  virtual void Cancel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // After the end: lets go of the connection, and of every payload that it still holds.
  virtual void Release() {}

 private:
  enum class Action { kNothing, kWrite, kHalfClose, kFinish };

  void Pump(What what) override;
  // The next action; its flag is set. kWrite: `records` is the message.
  Action Decide(What what, std::vector<Record>& records) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StopWriting();
  // Aborts later, unless the stream ends or something is sent meanwhile.
  void SetCloseAlarm();

  const bool dialled_;
  const std::shared_ptr<StreamCount> count_;
  std::shared_ptr<FlowStream> self_;
  grpc::ByteBuffer incoming_;  // of the read under way
  grpc::ByteBuffer outgoing_;  // of the write under way

  std::unique_ptr<grpc::Alarm> close_alarm_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_close_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::engine
