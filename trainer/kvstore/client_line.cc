// KvClientCore in sync mode: which line of the training this worker is on (line_watch.h), and how
// it gets to another.
#include <algorithm>

#include "trainer/kvstore/client_core.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLongestReason = 500;

}  // namespace

std::vector<ServerView> KvClientCore::Views() const {
  std::vector<ServerView> views;
  for (const ServerLink& link : links_) views.push_back(link.View());
  return views;
}

LineView KvClientCore::Judge() const {
  MutexLock lock(&mutex_);
  return JudgeLine(Views(), refused_);
}

void KvClientCore::Forget() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    const std::vector<bool> owes = pushes_.ServersThatOwe();
    for (const ServerLink& link : links_) {
      if (owes[link.server()] && link.stream() != nullptr) streams.push_back(link.stream());
    }
    pushes_.Forget();
    end_step_ = ended_at_ = -1;
    left_ = false;
  }
  // Records that are queued there may wait for credit that the given-up round will never return.
  for (const std::shared_ptr<Stream>& stream : streams) stream->Abort();
}

void KvClientCore::Adopt(int64_t line, int64_t step) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    line_ = line;
    refused_ = 0;
    refused_because_.clear();
    position_ = global_step_ = furthest_ = step;
    ended_at_ = -1;
    for (ServerLink& link : links_) {
      link.TakeLostAnswers();
      ended_at_ = std::max(ended_at_, link.state().end_step);
    }
    // A chief that was lost while it ended the training may have told some servers only.
    if (options_.chief) end_step_ = ended_at_;
    if (end_step_ >= 0) {
      sends = ToEach(WireOp::kEnd, end_step_, [](const ServerLink& link) { return link.ready() && link.state().end_step < 0; });
    }
  }
  Send(std::move(sends));
}

std::string KvClientCore::LossOfLine() const {
  {
    MutexLock lock(&mutex_);
    if (!IsLineLost() && (line_ == 0 || line_ != refused_)) return "";
  }
  return DescribeLoss();
}

std::string KvClientCore::DescribeLoss() const {
  MutexLock lock(&mutex_);
  std::string text;
  const auto say = [&text](const std::string& what) {
    if (!what.empty()) text += (text.empty() ? "" : "; ") + what;
  };
  for (const ServerLink& link : links_) say(link.DescribeLoss(line_));
  say(refused_because_);
  return text.empty() ? "a step was torn" : text;
}

void KvClientCore::Refuse(int64_t line, const std::string& reason) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    refused_ = line;
    if (refused_because_.empty()) refused_because_ = reason.substr(0, kLongestReason);
    for (ServerLink& link : links_) {
      if (options_.chief || !link.ready() || link.state().line != line || !link.TellTorn()) continue;
      sends.push_back({link.stream(), {PartRecords::WithText(Control(WireOp::kTorn, link), refused_because_)}});
    }
  }
  Send(std::move(sends));
}

void KvClientCore::ResetServers() {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    sends = ToEach(WireOp::kReset, 0, [](const ServerLink& link) { return link.NeedsReset(); });
    for (ServerLink& link : links_) {
      if (link.NeedsReset()) link.SentReset();
    }
  }
  Send(std::move(sends));
}

void KvClientCore::AwaitChange(int64_t seen, absl::Duration at_most) {
  const auto changed = [this, seen]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return changes_ != seen || !error_.ok(); };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&changed), at_most);
}

int64_t KvClientCore::line() const {
  MutexLock lock(&mutex_);
  return line_;
}

int64_t KvClientCore::furthest() const {
  MutexLock lock(&mutex_);
  return std::max(furthest_, position_);
}

int64_t KvClientCore::changes() const {
  MutexLock lock(&mutex_);
  return changes_;
}

}  // namespace trainyard::engine
