// One gRPC stream as a lane: the state machine that both ends share.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// What a completion queue gives back.
class GrpcEvent {
 public:
  virtual ~GrpcEvent() = default;
  virtual void Complete(bool ok) = 0;
};

// How many lanes a completion queue still has to drain before it may be shut down.
class GrpcLaneCount {
 public:
  void Add() {
    absl::MutexLock lock(&mutex_);
    ++count_;
  }
  void Remove() {
    absl::MutexLock lock(&mutex_);
    --count_;
  }
  void AwaitZero() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(+[](int* count) { return *count == 0; }, &count_));
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reads always, writes one message at a time, finishes when both are over. An operation is started outside the lock, and only by who has
// set its "pending" flag under it, so that a thread which sends does not hold up the one that receives.
class GrpcLane : public Lane, public std::enable_shared_from_this<GrpcLane> {
 public:
  void Send(std::vector<Record> records, bool more) override;
  void Close(const absl::Status& status) override;
  void Abort() override;
  std::string peer() const override { return peer_; }
  LaneTraffic traffic() const override;

 protected:
  GrpcLane(std::string peer, std::shared_ptr<LaneHandler> handler, GrpcLaneCount& count)
      : count_(count), peer_(std::move(peer)), handler_(std::move(handler)) {
    count_.Add();
  }

  // The stream is up: starts to read and to write. The lane keeps itself alive from KeepAlive() to its end.
  void KeepAlive() { self_ = shared_from_this(); }
  void OnStarted();
  // Before OnStarted, of an accepted lane.
  void OnAccepted() { handler_->OnOpened(shared_from_this()); }
  // The stream never came up; nothing was started but the finish.
  void OnStartFailed();

  // The gRPC operations; each completes by its event.
  virtual void StartRead(grpc::ByteBuffer* message, GrpcEvent* event) = 0;
  virtual void StartWrite(const grpc::ByteBuffer& message, GrpcEvent* event) = 0;
  // The dialler's "I send no more"; nothing on the other side, whose finish says it.
  virtual bool StartHalfClose(GrpcEvent* event) = 0;
  virtual void StartFinish(GrpcEvent* event) = 0;
  // How the stream ended, after the finish, which itself went well or not.
  virtual absl::Status FinishStatus(bool ok) = 0;
  virtual void Cancel() = 0;
  // After the end: lets the connection go, and with it every payload that it still holds.
  virtual void Release() = 0;
  // Whether this end may finish as soon as it has nothing left to send (the accepting one), or only when reading has ended.
  virtual bool FinishesFirst() const = 0;

 private:
  class Event final : public GrpcEvent {
   public:
    using Function = void (GrpcLane::*)(bool);
    Event(GrpcLane& lane, Function function) : lane_(lane), function_(function) {}
    void Complete(bool ok) override { (lane_.*function_)(ok); }

   private:
    GrpcLane& lane_;
    Function function_;
  };

  // What to do next, decided under the lock and done outside it.
  enum class Action { kNothing, kWrite, kHalfClose, kFinish, kEnd };
  struct Next {
    Action action = Action::kNothing;
    grpc::ByteBuffer message;  // kWrite
  };
  Next Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(const Next& next);
  // Reads the next message, as `reading_` says already, and decides anew.
  Next Read();
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnHalfClosed(bool ok);
  void OnFinished(bool ok);
  void Deliver(grpc::ByteBuffer& message);
  void Fail(const absl::Status& status);

  GrpcLaneCount& count_;
  const std::string peer_;
  std::shared_ptr<LaneHandler> handler_;
  std::shared_ptr<GrpcLane> self_;
  Event read_event_{*this, &GrpcLane::OnRead};
  Event written_event_{*this, &GrpcLane::OnWritten};
  Event half_closed_event_{*this, &GrpcLane::OnHalfClosed};
  Event finished_event_{*this, &GrpcLane::OnFinished};
  grpc::ByteBuffer incoming_;  // owned by whoever has set reading_

  mutable absl::Mutex mutex_;
  std::deque<Record> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool corked_ ABSL_GUARDED_BY(mutex_) = false;  // the last Send said `more`
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_paused_ ABSL_GUARDED_BY(mutex_) = false;  // the other side does not take what we send
  bool read_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool write_failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_close_pending_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ok_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);  // what the other side said or did wrong
  LaneTraffic traffic_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
