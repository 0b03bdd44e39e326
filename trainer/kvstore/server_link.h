// A worker's link to one server, and what the server has told of itself on it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/line_watch.h"
#include "trainer/transport/dialled_link.h"

namespace trainyard::engine {

// Not thread-safe; time is what its caller says it is.
class ServerLink {
 public:
  ServerLink(int server, std::string address, absl::Duration heartbeat_period, absl::Duration answer_deadline)
      : link_(heartbeat_period, answer_deadline), server_(server), address_(std::move(address)) {}

  // The change that a state told by the server brings.
  struct News {
    bool old = false;         // it had told a newer one: nothing changes
    bool restarted = false;   // another process than before, or a reset one: its answers of this step are gone
    bool lost_state = false;  // it had values before that
    bool became_ready = false;
  };
  // The server has told its state; `ready`: it has values, `step`: its global step, `incarnation`:
  // which process or reset it is of.
  News OnState(const KvServerState& state, bool ready, int64_t step, uint32_t incarnation, absl::Time now);
  // Its stream has ended. True: it was up.
  bool Lost(const absl::Status& status, absl::Time now);
  // It holds back an answer for other workers.
  void HeldBack(absl::Time now) { held_back_at_ = now; }

  // Records sent to it that change what it will tell.
  void Filled(int64_t line) { filled_as_ = line; }
  void SentReset() { resetting_ = true; }
  // False: it was told on this stream already.
  bool TellTorn();
  // Of what it answered before it was restarted; once.
  bool TakeLostAnswers();
  // It has lost values that it had, and has values again; once.
  bool TakeRefilled() { return ready_ && std::exchange(refilled_, false); }

  DialledLink& link() { return link_; }
  const DialledLink& link() const { return link_; }
  const std::shared_ptr<Stream>& stream() const { return link_.stream(); }
  bool up() const { return link_.up(); }
  int server() const { return server_; }
  const std::string& address() const { return address_; }
  bool ready() const { return ready_; }                                // it is up, and has values
  bool IsEmpty() const { return up() && !ready_ && filled_as_ == 0; }  // for the chief to fill
  // The chief need not reset it, or has.
  bool NeedsReset() const { return up() && !resetting_ && (ready_ || filled_as_ != 0); }
  uint32_t incarnation() const { return incarnation_; }
  const KvServerState& state() const { return state_; }
  int64_t step() const { return step_; }
  absl::Time held_back_at() const { return held_back_at_; }

  // For JudgeLine.
  ServerView View() const;
  // "server 1 (host:port)"
  std::string Describe() const;
  // Why a worker that trains on `line` (0: on none) cannot go on from it; "": it can.
  std::string DescribeLoss(int64_t line) const;
  // Why it is not ready.
  std::string DescribeNotReady(bool chief) const;

 private:
  DialledLink link_;
  const int server_;
  const std::string address_;
  bool ready_ = false;
  int64_t filled_as_ = 0;   // the chief has sent everything as this line and waits for the answer; 0: it has not
  bool resetting_ = false;  // the chief has sent a reset and waits for the answer
  bool told_torn_ = false;  // this stream has
  bool was_ready_ = false;
  bool refilled_ = false;
  bool lost_answers_ = false;  // it was restarted: its answers of this step are gone
  uint32_t incarnation_ = 0;
  KvServerState state_;
  int64_t step_ = 0;
  absl::Time held_back_at_ = absl::InfinitePast();
};

}  // namespace trainyard::engine
