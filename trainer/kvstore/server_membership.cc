// KvServerCore: the members, how they hear of each other, and how long the server waits for them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/round_watch.h"
#include "trainer/kvstore/server_core.h"
#include "trainer/optim/optimizer_settings.h"
#include "trainer/transport/flow_control.h"
#include "trainer/transport/pace_record.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLeastHeldBytes = 16 << 20;  // of a small share

}  // namespace

absl::Status KvServerCore::OnHello(const std::shared_ptr<Stream>& stream, const Record& record, Outbox& outbox) {
  const WireHeader& header = record.header;
  TY_ASSIGN_OR_RETURN(const KvHello hello, ParseHello(record.payload.ToString()));
  const bool observer = header.sender == kObserverRank;
  const std::string their_name = observer ? "the evaluator" : fmt::format("worker {}", header.sender);
  TY_RETURN_IF_ERROR(CheckAgreement(agreement_, name_, hello.agreement, their_name));
  const int places = PartStore::Places(options_.mode, options_.workers);
  if (!observer && header.sender >= static_cast<uint32_t>(places)) {
    return absl::InvalidArgumentError(fmt::format("worker index is {}, expected 0 to {}", header.sender, places - 1));
  }
  const bool positioned = (header.flags & kWireFlagPosition) != 0;
  if (positioned && header.step > kLastStep) return absl::InvalidArgumentError(fmt::format("'hello': step is {}", header.step));
  if (hello.end < 0 || static_cast<uint64_t>(hello.end) > kLastStep) {
    return absl::InvalidArgumentError(fmt::format("'hello': end is {}", hello.end));
  }
  const int worker = observer ? kObserver : static_cast<int>(header.sender);
  // A worker that only lost its stream goes on with what it has pushed. A new process makes it
  // again, and until it has pushed no round goes on without it.
  const bool same_process = positioned && header.epoch == incarnation_;
  std::shared_ptr<Stream> replaced;
  {
    MutexLock lock(&mutex_);
    if (members_.Knows(stream.get())) return absl::FailedPreconditionError("'hello' came twice");
    if (!observer) {
      TY_RETURN_IF_ERROR(CheckSettings(worker, hello.settings));
      TY_RETURN_IF_ERROR(CheckVocabulary(worker, hello.vocabulary));
    }
    replaced = members_.Join(stream,
                             {.worker = worker,
                              .chief = hello.chief && !observer,
                              .left = hello.left,
                              .new_process = !positioned,
                              .vocabulary = hello.vocabulary,
                              .settings = hello.settings,
                              .end = hello.end},
                             clock_.Now());
  }
  if (replaced != nullptr) {
    replaced->Close(absl::AbortedError(
        fmt::format("{}: another process said it is worker {}; only one can be (was it started twice?)", name_, header.sender)));
  }
  if (!observer && !same_process) {
    if (positioned) store_->SetPosition(worker, static_cast<int64_t>(header.step));
    store_->DropHeld(worker);
  }
  ShareWindow();
  MutexLock lock(&mutex_);
  outbox[stream].push_back(StateFor(WireOp::kWelcome, worker));
  return absl::OkStatus();
}

absl::Status KvServerCore::CheckVocabulary(int worker, const std::string& vocabulary) const {
  if (!training_.ready) return members_.CheckVocabulary(worker, vocabulary);
  if (vocabulary == training_.vocabulary) return absl::OkStatus();
  return Members::DifferentVocabularies("the training as begun by ", training_.chief, training_.vocabulary, worker, vocabulary);
}

absl::Status KvServerCore::CheckSettings(int worker, const JobSettings& settings) const {
  const JobSettings own = OptimizerSettings(options_.optimizer);
  JobSettings of_optimizer;
  for (const auto& [name, value] : own) {
    if (const std::string* const theirs = FindSetting(settings, name)) of_optimizer.emplace_back(name, *theirs);
  }
  if (!of_optimizer.empty()) TY_RETURN_IF_ERROR(Members::DifferentSettings(name_, own, worker, of_optimizer));
  if (!training_.ready) return members_.CheckSettings(worker, settings);
  return Members::DifferentSettings(fmt::format("the training as begun by worker {}", training_.chief), training_.settings, worker,
                                    settings);
}

absl::Status KvServerCore::OnLeave(const Peer& peer, bool done, Outbox& outbox) {
  MutexLock lock(&mutex_);
  if (peer.worker != kObserver) {
    members_.worker(peer.worker).left = true;
    members_.worker(peer.worker).done = done;
    if (training_.waits_for_release == absl::InfiniteFuture()) training_.waits_for_release = clock_.Now();
  }
  TellState(outbox);
  if (done) peer.stream->Close(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status KvServerCore::OnPace(const Peer& peer, const Record& record, Outbox& outbox) {
  TY_ASSIGN_OR_RETURN(const WorkerPace pace, PaceOf(record, options_.workers));
  if (pace.worker != peer.worker) {
    return absl::InvalidArgumentError(fmt::format("'pace' of worker {}, expected {}", pace.worker, peer.worker));
  }
  MutexLock lock(&mutex_);
  for (const auto& [pointer, other] : members_.peers()) {
    if (other.chief) outbox[other.stream].push_back(WithPace(records_.Control(WireOp::kPace, incarnation_), pace));
  }
  return absl::OkStatus();
}

void KvServerCore::Forget(const std::shared_ptr<Stream>& stream, const absl::Status& status) {
  MutexLock lock(&mutex_);
  const std::optional<Members::Gone> gone = members_.Forget(stream, clock_.Now());
  if (!gone || !gone->lost) return;
  if (!members_.worker(gone->peer.worker).done) {
    const std::string why = status.ok() ? "its stream has ended" : std::string(status.message());
    const std::optional<std::string> line = losses_.Add(fmt::format("{}: worker {} is lost", name_, gone->peer.worker), why, clock_.Now());
    if (line) LogWarning("{}", *line);
  }
  if (gone->peer.chief && !training_.ready) store_->ForgetAssigned();
}

Record KvServerCore::StateFor(WireOp op, int worker) {
  const absl::Time now = clock_.Now();
  KvServerState state{.training = members_.CountTraining(now),
                      .end_step = training_.end_step,
                      .order = ++states_told_,
                      .released = training_.released,
                      .torn = training_.torn};
  if (training_.ready) {
    const PartStore::Rounds rounds = store_->rounds();
    state.line = training_.line;
    state.line_step = training_.line_step;
    state.origin = training_.origin;
    state.lowest = rounds.lowest;
    state.highest = rounds.highest;
    state.planned = PlannedSteps(now);
  }
  if (worker != kObserver) {
    if (members_.IsTraining(worker, now)) --state.training;
    if (training_.ready) {
      state.worker_step = store_->NextStepOf(worker);
      state.worker_known = store_->Knows(worker);
    }
  }
  return PartRecords::WithText(records_.Control(op, incarnation_, store_->global_step(), training_.ready ? kWireFlagReady : 0),
                               ToJson(state));
}

void KvServerCore::TellState(Outbox& outbox) {
  const absl::Time now = clock_.Now();
  told_training_ = members_.CountTraining(now);
  told_planned_ = PlannedSteps(now);
  for (const auto& [pointer, peer] : members_.peers()) outbox[peer.stream].push_back(StateFor(WireOp::kState, peer.worker));
}

int64_t KvServerCore::PlannedSteps(absl::Time now) const {
  return sync() || !training_.ready ? -1 : store_->PlannedBy(members_.Ends(training_.chief, now));
}

size_t KvServerCore::held_bytes() const {
  return std::min(options_.held_bytes, std::max(kLeastHeldBytes, static_cast<size_t>(store_->parameter_bytes()) / 4));
}

void KvServerCore::ShareWindow() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    for (const auto& [pointer, peer] : members_.peers()) streams.push_back(peer.stream);
  }
  for (const std::shared_ptr<Stream>& stream : streams) stream->SetWindow(WindowShare(held_bytes(), streams.size()));
}

void KvServerCore::EndSilentStreams() {
  std::vector<Peer> silent;
  std::vector<std::shared_ptr<Stream>> late;
  Outbox outbox;
  const absl::Time now = RealClock().Now();
  {
    absl::ReaderMutexLock era(&era_);
    MutexLock lock(&mutex_);
    silent = members_.TakeSilent(now);
    const absl::Time training_now = clock_.Now();
    late = members_.TakeLate(training_now);
    const bool news = members_.CountTraining(training_now) != told_training_ || PlannedSteps(training_now) != told_planned_;
    if (news) TellState(outbox);
  }
  Send(std::move(outbox));
  for (const Peer& peer : silent) {
    LogWarning("{}: {} has been silent for {}", name_, peer.stream->peer(), absl::FormatDuration(now - peer.heard));
    peer.stream->Abort();
  }
  const absl::Status no_hello =
      absl::DeadlineExceededError(fmt::format("no 'hello' within {}", absl::FormatDuration(options_.timeouts.hello)));
  for (const std::shared_ptr<Stream>& stream : late) {
    TellRefusal(*stream, no_hello);
    stream->Close(WithContext(no_hello, name_));
  }
}

void KvServerCore::OnTurnedAway(const std::string& peer, const absl::Status& why) { refusals_.Add(name_, peer, why, clock_.Now()); }

void KvServerCore::TellRefusal(const Stream& stream, const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    members_.ForgetAwaited(&stream);
  }
  OnTurnedAway(stream.peer(), status);
}

void KvServerCore::TellUnfit(const Stream& stream, const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!members_.ForgetAwaited(&stream)) return;
  }
  const bool lost = status.ok() || absl::IsUnavailable(status);
  OnTurnedAway(stream.peer(), lost ? absl::UnavailableError("its stream ended before 'hello'") : status);
}

void KvServerCore::CheckRounds() {
  absl::ReaderMutexLock era(&era_);
  const std::optional<OpenRound> round = store_->OldestOpenRound();
  if (!round) {
    CheckRelease();
    return;
  }
  const absl::Time now = clock_.Now();
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Stream>> waited_for;
  std::string missing;
  bool overdue = false;
  {
    MutexLock lock(&mutex_);
    std::vector<absl::Time> active_at;
    // A process that came after the round was opened is part of the absence, whatever it does: else
    // one that crashes again and again would be waited for without end.
    for (const Member& worker : members_.workers()) {
      active_at.push_back(worker.process_since > round->since ? absl::InfinitePast() : worker.active_at);
    }
    overdue = IsOverdue(*round, active_at, options_.timeouts.peer, now);
    for (const int worker : round->missing) {
      const std::shared_ptr<Stream>& stream = members_.workers()[worker].stream;
      if (stream != nullptr) waited_for.push_back(stream);
      missing += fmt::format("{}worker {} ({})", missing.empty() ? "" : ", ", worker, members_.Describe(worker, now));
    }
    for (const auto& [pointer, peer] : members_.peers()) {
      if (peer.worker != kObserver) streams.push_back(peer.stream);
    }
  }
  // A worker that has pushed other parts first may have no credit left for the part that is waited
  // for.
  for (const std::shared_ptr<Stream>& stream : waited_for) stream->LendIfStarved();
  if (!overdue) {
    for (const std::shared_ptr<Stream>& stream : streams) stream->Send({records_.Control(WireOp::kHeartbeat, incarnation_)});
    return;
  }
  const absl::Status status = absl::DeadlineExceededError(
      fmt::format("{}: step {} of '{}' has waited {} for {}", name_, round->step, records_.TensorOf(round->part),
                  absl::FormatDuration(absl::Trunc(now - round->since, absl::Milliseconds(100))), missing));
  if (!streams.empty()) LogError("{}", std::string(status.message()));
  for (const std::shared_ptr<Stream>& stream : streams) stream->Close(status);
}

void KvServerCore::CheckRelease() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    if (!sync() || !training_.ready || training_.released) return;
    const Member& chief = members_.workers()[training_.chief];
    const absl::Time last = std::max({training_.waits_for_release, chief.active_at, chief.process_since});
    if (training_.waits_for_release == absl::InfiniteFuture() || chief.stream == nullptr || last + options_.timeouts.peer <= clock_.Now()) {
      return;
    }
    for (const Member& worker : members_.workers()) {
      if (worker.left && worker.stream != nullptr) streams.push_back(worker.stream);
    }
  }
  for (const std::shared_ptr<Stream>& stream : streams) stream->Send({records_.Control(WireOp::kHeartbeat, incarnation_)});
}

}  // namespace trainyard::engine
