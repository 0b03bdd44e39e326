#include "trainer/kvstore/server_link.h"

#include <fmt/format.h>

#include <utility>

namespace trainyard::engine {

ServerLink::News ServerLink::OnState(const KvServerState& state, bool ready, int64_t step, uint32_t incarnation, absl::Time now) {
  News news;
  // The server's threads may send two states in another order than they found them.
  if (up() && state.order < state_.order) {
    news.old = true;
    return news;
  }
  state_ = state;
  step_ = step;
  link_.Answered(now);
  news.became_ready = ready && !ready_;
  ready_ = ready;
  if (incarnation_ != 0 && incarnation_ != incarnation) {
    news.restarted = !resetting_;
    news.lost_state = was_ready_;
    refilled_ = refilled_ || was_ready_;
    lost_answers_ = true;
    resetting_ = told_torn_ = false;
    filled_as_ = 0;
  }
  incarnation_ = incarnation;
  if (ready_) {
    filled_as_ = 0;
    was_ready_ = true;
  }
  return news;
}

bool ServerLink::Lost(const absl::Status& status, absl::Time now) {
  ready_ = resetting_ = told_torn_ = false;
  filled_as_ = 0;
  return link_.Lost(status, now);
}

bool ServerLink::TellTorn() { return !std::exchange(told_torn_, true); }

bool ServerLink::TakeLostAnswers() { return std::exchange(lost_answers_, false); }

ServerView ServerLink::View() const {
  return {.up = up() && !resetting_,
          .ready = ready_,
          .filled_as = filled_as_,
          .line = state_.line,
          .line_step = state_.line_step,
          .origin = state_.origin,
          .lowest = state_.lowest,
          .highest = state_.highest,
          .torn = !state_.torn.empty()};
}

std::string ServerLink::Describe() const { return fmt::format("server {} ({})", server_, address_); }

std::string ServerLink::DescribeLoss(int64_t line) const {
  if (!up()) return "";
  if (!ready_) return fmt::format("{} {}", Describe(), was_ready_ ? "was restarted" : "is empty");
  std::string text = state_.torn;
  if (line != 0 && state_.line != line) text += fmt::format("{}{} was filled anew", text.empty() ? "" : "; ", Describe());
  return text;
}

std::string ServerLink::DescribeNotReady(bool chief) const {
  return fmt::format("{}: {}", Describe(),
                     !up()   ? link_.last_error()
                     : chief ? "connected, but does not confirm its parameters"
                             : "connected, but the chief has not initialised it");
}

}  // namespace trainyard::engine
