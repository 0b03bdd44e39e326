// One peer that is dialled until it answers, and again whenever its stream is lost: backoff,
// heartbeats, the last error.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Not thread-safe; time is what its caller says it is. It keeps the stream and says what is due.
// Its owner dials, says hello as the first record of every stream, and sends the heartbeats.
//
//   down --Dialled--> dialled --Answered--> up --Lost--> down, dialled again after a backoff
//                     dialled --Unanswered, Lost--> down
class DialledLink {
 public:
  // `heartbeat_period`: between two heartbeats of a link that is up. `answer_deadline`: for the
  // answer to the hello.
  DialledLink(absl::Duration heartbeat_period, absl::Duration answer_deadline)
      : heartbeat_period_(heartbeat_period), answer_deadline_(answer_deadline) {}

  bool DialDue(absl::Time now) const { return stream_ == nullptr && next_dial_ <= now; }
  // The stream neither answers nor ends, as one to an address that another pod has now: its owner
  // gives it up (Lost) and aborts it.
  bool Unanswered(absl::Time now) const { return stream_ != nullptr && !up_ && answer_due_ <= now; }
  // True once a period: the caller sends one.
  bool TakeHeartbeat(absl::Time now);
  // When one of the three is due next.
  absl::Time NextDue() const;

  void Dialled(std::shared_ptr<Stream> stream, absl::Time now) {
    stream_ = std::move(stream);
    answer_due_ = now + answer_deadline_;
  }
  // The other side has answered the hello.
  void Answered(absl::Time now);
  // The stream has ended. True: the link was up.
  bool Lost(const absl::Status& status, absl::Time now);

  bool up() const { return up_; }
  const std::shared_ptr<Stream>& stream() const { return stream_; }  // null: not dialled
  // Why it is not up.
  const std::string& last_error() const { return last_error_; }

 private:
  absl::Duration heartbeat_period_;
  absl::Duration answer_deadline_;
  std::shared_ptr<Stream> stream_;
  bool up_ = false;
  absl::Time next_dial_ = absl::InfinitePast();
  absl::Time answer_due_ = absl::InfiniteFuture();
  absl::Time next_heartbeat_ = absl::InfiniteFuture();
  absl::Duration backoff_;
  std::string last_error_ = "not answered yet";
};

}  // namespace trainyard::engine
