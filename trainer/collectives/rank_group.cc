#include "trainer/collectives/rank_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/collectives/group_core.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kLookPeriod =
    absl::Milliseconds(250);  // while waiting, deadlines and the request to stop are looked at this often
constexpr absl::Duration kGoodbyeDeadline = absl::Seconds(2);
constexpr absl::Duration kReleaseDeadline = absl::Seconds(10);
constexpr double kStopShare = 0.25;  // of the time to stop: for a step to be finished

}  // namespace

RankGroup::RankGroup(RankGroupOptions options, Transport& transport) : core_(std::make_shared<GroupCore>(std::move(options), transport)) {}

absl::StatusOr<std::unique_ptr<RankGroup>> RankGroup::Create(RankGroupOptions options, Transport& transport) {
  const auto ranks = static_cast<int>(options.hosts.size());
  constexpr int kMostRanks = 4096;
  if (options.rank < 0 || options.rank >= ranks || ranks > kMostRanks) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} of {}: expected a rank below the number of ranks, at most {}", options.rank, ranks, kMostRanks));
  }
  const std::string listen = options.listen;
  std::unique_ptr<RankGroup> group(new RankGroup(std::move(options), transport));
  if (ranks > 1) {
    TY_ASSIGN_OR_RETURN(group->listener_, transport.Listen(listen, group->core_));
  }
  group->tender_ = std::thread([core = group->core_] {
    while (core->AwaitTend(core->Tend(RealClock().Now()))) {
    }
  });
  return group;
}

RankGroup::~RankGroup() {
  core_->Shut(/*goodbye=*/false);
  core_->Abandon();
  listener_.reset();
  if (tender_.joinable()) tender_.join();
  const absl::Time deadline = RealClock().Now() + kReleaseDeadline;
  if (!core_->AwaitShut(deadline) || !core_->borrowed().AwaitNone(deadline) || !core_->results().AwaitNone(deadline)) {
    LogError("rank {}: values are still being sent while the group is destroyed", core_->options().rank);
  }
}

bool RankGroup::IsStopping() const { return core_->options().stopping && core_->options().stopping(); }

absl::Status RankGroup::AwaitMembers(const std::function<bool()>& reached, std::string_view what) {
  const RankGroupOptions& options = core_->options();
  const absl::Duration allowed = std::exchange(formed_before_, true) ? options.timeouts.peer : options.timeouts.connect;
  const absl::Time start = options.clock->Now();
  LongWait wait(core_->own_name(), start, options.on_wait);
  while (!reached()) {
    TY_RETURN_IF_ERROR(core_->status());
    if (IsStopping()) return absl::CancelledError(fmt::format("rank {}: stopped before the group has formed", options.rank));
    wait.Look(options.clock->Now(), [this] { return core_->DescribeAbsent(); });
    if (options.clock->Now() < std::max(start, core_->progress_at()) + allowed) continue;
    return absl::DeadlineExceededError(
        fmt::format("rank {}: {} for {}: {}", options.rank, what, absl::FormatDuration(allowed), core_->DescribeAbsent()));
  }
  return core_->status();
}

absl::StatusOr<Formed> RankGroup::Join(JoinRequest request) {
  request.agreement = core_->options().agreement;
  request.node = core_->options().node;
  request.device_kind = core_->options().device_kind;
  core_->StartJoining(request);
  TY_RETURN_IF_ERROR(AwaitMembers([this] { return core_->AwaitFormed(kLookPeriod); }, "join: waited for rank 0 to form the group"));
  return core_->formed();
}

absl::StatusOr<Gathered> RankGroup::Gather() {
  core_->StartJoining({});
  TY_RETURN_IF_ERROR(AwaitMembers([this] { return core_->AwaitAllJoined(kLookPeriod); }, "gather: waited for the other ranks"));
  return core_->TellGathered();
}

void RankGroup::Form(const Formed& formed) { core_->Form(formed); }
void RankGroup::Finish(int64_t step) { core_->Finish(step); }
void RankGroup::FinishHere() { core_->FinishHere(); }
void RankGroup::Begin(Operation& operation, OperationId id) { core_->Begin(operation, id); }
void RankGroup::Contribute(size_t bucket, BucketValues values) { core_->Contribute(bucket, std::move(values)); }

void RankGroup::Poll() { core_->Poll(); }

absl::StatusOr<Waited> RankGroup::Wait() {
  absl::StatusOr<Waited> waited = AwaitOperation();
  core_->Abandon();
  if (waited.ok()) return waited;
  if (absl::IsDeadlineExceeded(waited.status())) core_->Leave(std::string(waited.status().message()));
  // Queued records are dropped with the streams; records that are being sent are let go soon.
  if (core_->status().ok() || core_->borrowed().AwaitNone(RealClock().Now() + kReleaseDeadline)) return waited;
  return absl::DeadlineExceededError(
      fmt::format("rank {}: of a given-up step: {}", core_->options().rank, core_->DescribeLoans(core_->borrowed())));
}

absl::StatusOr<Waited> RankGroup::AwaitOperation() { return Await(/*done=*/false, core_->borrowed()); }

absl::Status RankGroup::AwaitReaders() { return Await(/*done=*/true, core_->results()).status(); }

absl::StatusOr<Waited> RankGroup::Await(bool done, BorrowCount& loans) {
  const RankGroupOptions& options = core_->options();
  const absl::Time start = options.clock->Now();
  LongWait wait(core_->own_name(), start, options.on_wait);
  absl::Time stop_at = absl::InfiniteFuture();
  while (true) {
    done = done || (core_->AwaitOperation(kLookPeriod) && core_->operation_done());
    if (done && AwaitNone(loans)) return Waited{};
    if (!done && core_->ended()) return Waited{.ended = true};
    if (!done) {
      if (const absl::Status status = core_->status(); !status.ok()) {
        // The step cannot be finished, and no other group will: its replacement goes on behind it.
        if (!absl::IsAborted(status) || !IsStopping()) return status;
        return absl::CancelledError(fmt::format("rank {}: stopped: {}", options.rank, std::string(status.message())));
      }
    }
    const std::string awaited = done ? core_->DescribeLoans(loans) : core_->DescribeAwaited();
    if (awaited.empty()) continue;  // the last value has been read meanwhile
    wait.Look(options.clock->Now(), [&] { return awaited; });
    if (IsStopping()) stop_at = std::min(stop_at, RealClock().Now() + kStopShare * options.timeouts.stop);
    if (RealClock().Now() >= stop_at) {
      return absl::CancelledError(fmt::format("rank {}: stopped while it waits for {}", options.rank, awaited));
    }
    if (options.clock->Now() < std::max(start, core_->progress_at()) + options.timeouts.peer) continue;
    return absl::DeadlineExceededError(
        fmt::format("rank {}: nothing within {} of {}", options.rank, absl::FormatDuration(options.timeouts.peer), awaited));
  }
}

bool RankGroup::AwaitNone(BorrowCount& loans) {
  if (loans.Borrowers().empty()) return true;
  core_->HastenReturns();
  return loans.AwaitNone(RealClock().Now() + kLookPeriod);
}

bool RankGroup::BeginAsking(Operation& operation, int64_t step) { return core_->BeginAsking(operation, step); }
void RankGroup::AwaitApart(absl::Duration at_most) { core_->AwaitApart(at_most); }

void RankGroup::End(int64_t step) { core_->End(step); }

void RankGroup::Release() {
  const RankGroupOptions& options = core_->options();
  core_->Release();
  const absl::Time start = options.clock->Now();
  LongWait wait(core_->own_name(), start, options.on_wait);
  while (!core_->AwaitAllGone(options.timeouts.silence, kLookPeriod)) {
    if (IsStopping() || options.clock->Now() >= start + options.timeouts.peer) return;
    wait.Look(options.clock->Now(), [] { return "the result is safe, other ranks have not ended yet"; });
  }
}

absl::Status RankGroup::AwaitRelease() {
  const RankGroupOptions& options = core_->options();
  const absl::Time start = options.clock->Now();
  while (!core_->AwaitReleased(kLookPeriod)) {
    TY_RETURN_IF_ERROR(core_->status());
    if (IsStopping()) return absl::CancelledError(fmt::format("rank {}: stopped after its last step", options.rank));
    if (options.clock->Now() < std::max(start, core_->progress_at()) + options.timeouts.peer) continue;
    return absl::DeadlineExceededError(fmt::format("rank {}: all steps are done, but rank 0 has not made the result safe within {}",
                                                   options.rank, absl::FormatDuration(options.timeouts.peer)));
  }
  return absl::OkStatus();
}

absl::Status RankGroup::Leave(const std::string& reason) {
  core_->Leave(reason);
  return absl::AbortedError(reason);
}

void RankGroup::ShowActivity() { core_->ShowActivity(); }
void RankGroup::TellPace(WorkerPace pace) { core_->TellPace(std::move(pace)); }
std::vector<WorkerPace> RankGroup::paces() const { return core_->paces(); }

void RankGroup::AwaitGoodbye() {
  const RankGroupOptions& options = core_->options();
  const absl::Time start = options.clock->Now();
  absl::Time there_at = start;
  while (true) {
    if (core_->SayGoodbye()) there_at = options.clock->Now();
    if (core_->AwaitGoodbye(kLookPeriod) || IsStopping()) return;
    if (options.clock->Now() >= std::min(start + options.timeouts.peer, there_at + options.timeouts.silence)) return;
    // A replacement of rank 0 waits for this rank.
    if (absl::IsAborted(core_->status())) {
      core_->StartJoining({.agreement = options.agreement, .node = options.node, .device_kind = options.device_kind});
    }
  }
}

void RankGroup::Done() {
  if (core_->options().rank > 0 && core_->released()) AwaitGoodbye();
  core_->Shut(/*goodbye=*/true);
  if (!core_->AwaitShut(RealClock().Now() + kGoodbyeDeadline))
    LogWarning("rank {}: not every rank took the goodbye", core_->options().rank);
}

BorrowCount& RankGroup::borrowed() { return core_->borrowed(); }
BorrowCount& RankGroup::results() { return core_->results(); }
int RankGroup::ranks() const { return core_->ranks(); }
RankLayout RankGroup::layout() const { return core_->layout(); }
bool RankGroup::one_device_kind() const { return core_->one_device_kind(); }
StreamTraffic RankGroup::traffic() const { return core_->traffic(); }

}  // namespace trainyard::engine
