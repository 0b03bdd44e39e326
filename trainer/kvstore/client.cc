#include "trainer/kvstore/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/base/long_wait.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/client_core.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kGoodbyeDeadline = absl::Seconds(2);
constexpr absl::Duration kReleaseDeadline = absl::Seconds(10);
constexpr absl::Duration kLookPeriod = absl::Seconds(1);  // while waiting, the deadline is looked at this often

constexpr double kStopShare = 0.25;  // of the time to stop: for a step to be finished

int64_t NewLine() {
  std::random_device random;
  return static_cast<int64_t>((uint64_t{random()} << 20U) ^ random()) | 1;
}

}  // namespace

KvClient::KvClient(KvClientOptions options, Transport& transport)
    : core_(std::make_shared<KvClientCore>(std::move(options), transport)), options_(core_->options()), tender_([core = core_] {
        while (core->AwaitTend(core->Tend(RealClock().Now()))) {
        }
      }) {}

KvClient::~KvClient() {
  core_->Shut(/*goodbye=*/false);
  tender_.join();
  if (!core_->AwaitShut(RealClock().Now() + kReleaseDeadline) || !core_->borrowed().AwaitNone(RealClock().Now() + kReleaseDeadline)) {
    LogError("{}: gradients are still being sent while the client is destroyed", core_->name());
  }
}

absl::StatusOr<TrainingStart> KvClient::Start(ParameterSet& parameters) {
  return IsSync() ? StartOnLine(parameters) : StartAsItIs(parameters);
}

void KvClient::PushGradient(int key, const GradientView& gradient, int64_t step) {
  pushed_ = true;
  core_->Push(key, gradient, step);
}

void KvClient::PushNothing(int key, int64_t step) {
  pushed_ = true;
  core_->Push(key, std::nullopt, step);
}

absl::StatusOr<StepResult> KvClient::Wait(ParameterSet& parameters) {
  core_->Flush();
  StepResult result;
  Clock& clock = *options_.clock;
  absl::Time deadline = clock.Now() + options_.timeouts.peer;
  LongWait wait(core_->name(), clock.Now(), options_.on_wait);
  while (true) {
    TY_RETURN_IF_ERROR(CheckLine());
    TY_ASSIGN_OR_RETURN(const int64_t lost, FillEmptyServers());
    result.lost_steps = std::max(result.lost_steps, lost);
    if (StoreArrived(std::min(deadline - clock.Now(), kLookPeriod), parameters)) {
      const absl::Time now = clock.Now();
      deadline = now + options_.timeouts.peer;
      wait.Restart(now);
      stop_at_ = absl::InfiniteFuture();
      continue;
    }
    if (const StepState state = core_->FinishStep(pushed_); state != StepState::kUnderWay) {
      result.ended = state == StepState::kPastEnd;
      break;
    }
    wait.Look(clock.Now(), [this] { return core_->DescribeOutstanding(); });
    // A step that can be finished is: then a worker that is started in place of this one goes on
    // behind it.
    if (IsStopping()) stop_at_ = std::min(stop_at_, RealClock().Now() + kStopShare * options_.timeouts.stop);
    if (RealClock().Now() >= stop_at_) {
      return absl::CancelledError(fmt::format("{}: stopped while it waits for {}", core_->name(), core_->DescribeOutstanding()));
    }
    deadline = std::max(deadline, core_->held_back_at() + options_.timeouts.peer);
    if (clock.Now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format("{}: Wait: no answer within {} for {}", core_->name(),
                                                     absl::FormatDuration(options_.timeouts.peer), core_->DescribeOutstanding()));
    }
  }
  TY_RETURN_IF_ERROR(AwaitLoans("Wait"));
  result.global_step = core_->global_step();
  result.refilled = core_->TakeRefilled();
  if (std::exchange(pushed_, false) && options_.mode == KvMode::kAsync) {
    result.staleness = std::max<int64_t>(0, result.global_step - seen_step_ - 1);
  }
  seen_step_ = result.global_step;
  newest_ = &parameters;
  return result;
}

absl::Status KvClient::AwaitLoans(std::string_view call) {
  LongWait wait(core_->name(), options_.clock->Now(), options_.on_wait);
  const absl::Time deadline = RealClock().Now() + options_.timeouts.peer;
  while (!core_->borrowed().AwaitNone(RealClock().Now() + kLookPeriod)) {
    const std::string lent = core_->DescribeLoans();
    if (lent.empty()) continue;  // the last gradient has been read meanwhile
    wait.Look(options_.clock->Now(), [&] { return lent; });
    if (IsStopping()) stop_at_ = std::min(stop_at_, RealClock().Now() + kStopShare * options_.timeouts.stop);
    if (RealClock().Now() >= stop_at_) return absl::CancelledError(fmt::format("{}: stopped while it waits for {}", core_->name(), lent));
    if (RealClock().Now() < deadline) continue;
    return absl::DeadlineExceededError(
        fmt::format("{}: {}: nothing within {} of {}", core_->name(), call, absl::FormatDuration(options_.timeouts.peer), lent));
  }
  return absl::OkStatus();
}

bool KvClient::StoreArrived(absl::Duration at_most, ParameterSet& parameters) {
  const std::vector<ArrivedValues> arrived = core_->AwaitAnswers(at_most);
  const std::vector<int> behind = SendNewest();
  for (const ArrivedValues& answer : arrived) {
    if (std::ranges::count(behind, core_->ServerOf(answer.part)) > 0) continue;  // older than what this worker has
    SpanLog* const profile = options_.profile != nullptr && options_.profile->Wants(answer.step) ? options_.profile : nullptr;
    const int64_t start = profile != nullptr ? profile->Now() : 0;
    core_->Store(answer, parameters);
    if (profile != nullptr) {
      profile->Add({.kind = SpanKind::kPull, .id = answer.part, .step = answer.step, .start = start, .end = profile->Now()});
    }
  }
  return !arrived.empty();
}

absl::StatusOr<TrainingState> KvClient::Pull(bool with_slots) {
  TrainingState state{.parameters = ParameterSet(options_.specs), .slots = {}, .step = 0};
  if (with_slots) {
    for (size_t i = 0; i < options_.slot_names.size(); ++i) state.slots.emplace_back(options_.specs);
  }
  TY_RETURN_IF_ERROR(PullState(state, with_slots));
  return state;
}

absl::Status KvClient::PullInto(ParameterSet& parameters) {
  TrainingState state{.parameters = std::move(parameters), .slots = {}, .step = 0};  // the same memory
  if (newest_ != nullptr) newest_ = &state.parameters;
  const absl::Status status = PullState(state, /*with_slots=*/false);
  parameters = std::move(state.parameters);
  if (newest_ != nullptr || status.ok()) newest_ = &parameters;
  return status;
}

absl::Status KvClient::End(int64_t step) {
  core_->End(step);
  return Reach(KvGoal::kAllEnded, After(options_.timeouts.peer), "End: waited for the servers to confirm");
}

void KvClient::ShowActivity() { core_->ShowActivity(); }
void KvClient::TellPace(WorkerPace pace) { core_->TellPace(std::move(pace)); }
std::vector<WorkerPace> KvClient::paces() const { return core_->paces(); }

absl::Status KvClient::AskForRollback(const std::string& reason) {
  core_->Refuse(core_->line(), reason);
  return RolledBack(reason);
}

absl::Status KvClient::Release() {
  core_->Release();
  return Reach(KvGoal::kAllReleased, After(options_.timeouts.peer), "Release: waited for the servers to confirm");
}

absl::Status KvClient::AwaitRelease() {
  core_->Leave();
  Deadline deadline = After(options_.timeouts.peer);
  while (!core_->Await(KvGoal::kReleased, kLookPeriod)) {
    TY_RETURN_IF_ERROR(CheckLine());
    if (IsStopping()) return absl::CancelledError(fmt::format("{}: stopped after its last step", core_->name()));
    deadline.time = std::max(deadline.time, core_->held_back_at() + options_.timeouts.peer);
    if (options_.clock->Now() < deadline.time) continue;
    return absl::DeadlineExceededError(fmt::format("{}: all steps are done, but the chief has not made the result safe within {}",
                                                   core_->name(), absl::FormatDuration(deadline.allowed)));
  }
  return absl::OkStatus();
}

void KvClient::Leave() { core_->Leave(); }

absl::Status KvClient::AwaitOthers(absl::Duration deadline) {
  const Deadline end = After(deadline);
  const absl::Status status = Reach(KvGoal::kNobodyTrains, end, "AwaitOthers: waited for the other workers");
  if (core_->released() || !core_->error().ok() || !absl::IsDeadlineExceeded(status)) return status;
  return absl::CancelledError(fmt::format("{}: others still train after {}", core_->name(), absl::FormatDuration(deadline)));
}

void KvClient::Done() {
  if (!IsSync()) core_->Leave();
  core_->Shut(/*goodbye=*/true);
  if (!core_->AwaitShut(RealClock().Now() + kGoodbyeDeadline)) LogWarning("{}: not every server confirmed the goodbye", core_->name());
}

int64_t KvClient::global_step() const { return core_->global_step(); }
int64_t KvClient::planned_steps() const { return core_->planned_steps(); }
int64_t KvClient::bytes_sent() const { return core_->traffic().bytes_sent; }
int64_t KvClient::bytes_received() const { return core_->traffic().bytes_received; }

absl::Status KvClient::CheckLine() const {
  TY_RETURN_IF_ERROR(core_->error());
  if (!IsSync()) return absl::OkStatus();
  const std::string loss = core_->LossOfLine();
  return loss.empty() ? absl::OkStatus() : RolledBack(loss);
}

absl::StatusOr<TrainingStart> KvClient::StartAsItIs(ParameterSet& parameters) {
  const Deadline deadline = After(options_.timeouts.connect);
  if (options_.chief) TY_RETURN_IF_ERROR(Reach(KvGoal::kAllUp, deadline, "Start: could not connect"));
  TrainingStart start;
  start.joined = core_->any_ready() || !options_.chief;
  TY_RETURN_IF_ERROR(Reach(KvGoal::kAllReady, deadline, "Start: waited for initialised servers"));
  TY_RETURN_IF_ERROR(PullInto(parameters));
  core_->BeginFrom(parameters);
  start.again = core_->worker_known();
  start.worker_step = core_->worker_step() >= 0 ? core_->worker_step() : core_->global_step();
  start.global_step = options_.mode == KvMode::kSync ? start.worker_step : core_->global_step();
  core_->SetPosition(start.worker_step);
  start.ended = core_->ended();
  seen_step_ = start.global_step;
  core_->TakeRefilled();
  return start;
}

absl::StatusOr<TrainingStart> KvClient::StartOnLine(ParameterSet& parameters) {
  const bool again = core_->line() != 0;
  const Deadline deadline = After(again ? options_.timeouts.peer : options_.timeouts.connect);
  const int64_t reached = again ? core_->position() : -1;
  core_->Forget();
  pushed_ = false;
  stop_at_ = absl::InfiniteFuture();
  std::string reason;
  int64_t filled = 0;
  LongWait wait(core_->name(), options_.clock->Now(), options_.on_wait);
  while (true) {
    TY_RETURN_IF_ERROR(core_->error());
    const int64_t seen = core_->changes();
    const LineView view = core_->Judge();
    const bool lost = view.verdict == LineVerdict::kTorn || view.verdict == LineVerdict::kMixed || view.verdict == LineVerdict::kEmpty;
    if (lost && reason.empty()) reason = core_->DescribeLoss();
    if (view.verdict == LineVerdict::kAdopt) {
      const int64_t far = again ? reached : core_->furthest();
      core_->Adopt(view.line, view.step);
      const absl::Status pulled = PullInto(parameters);
      if (IsRolledBack(pulled)) continue;
      TY_RETURN_IF_ERROR(pulled);
      // Servers of this machine may have read gradients where they lie. They have forgotten them
      // with the line before.
      TY_RETURN_IF_ERROR(AwaitLoans("Start"));
      core_->BeginFrom(parameters);
      TrainingStart start{.global_step = view.step,
                          .worker_step = view.step,
                          .joined = view.line != filled,
                          .again = view.line != filled && view.step > view.line_step,
                          .ended = core_->ended(),
                          .line_step = view.line_step,
                          .redone = std::nullopt,
                          .origin = view.origin};
      if (view.line == filled && far > view.step) start.redone = RedoneSteps{.from = view.step, .to = far, .reason = reason};
      seen_step_ = view.step;
      core_->TakeRefilled();
      return start;
    }
    if (view.verdict == LineVerdict::kTorn && !options_.chief) {
      core_->Refuse(view.line, "its step was cut off before every part had it");
    } else if (lost && options_.chief && view.verdict != LineVerdict::kEmpty) {
      core_->ResetServers();
    } else if (lost && options_.chief) {
      TY_ASSIGN_OR_RETURN(const std::shared_ptr<const TrainingState> state, LoadState(std::max(reached, core_->furthest()) > 0));
      filled = NewLine();
      for (const int server : core_->EmptyServers())
        core_->Fill(server, state, state->step, {.line = filled, .step = state->step, .origin = state->origin});
    }
    if (IsStopping()) return absl::CancelledError(fmt::format("{}: stopped before it could start", core_->name()));
    core_->AwaitChange(seen, kLookPeriod);
    wait.Look(options_.clock->Now(), [&] { return IsReady() ? reason : core_->DescribeNotReady(); });
    if (options_.clock->Now() < deadline.time) continue;
    TY_RETURN_IF_ERROR(core_->error());
    return absl::DeadlineExceededError(fmt::format("{}: Start: {} for {}: {}", core_->name(),
                                                   options_.chief ? "could not connect" : "waited for initialised servers",
                                                   absl::FormatDuration(deadline.allowed), core_->DescribeNotReady()));
  }
}

absl::StatusOr<std::shared_ptr<TrainingState>> KvClient::LoadState(bool again) {
  TY_ASSIGN_OR_RETURN(TrainingState loaded, options_.load(again));
  auto state = std::make_shared<TrainingState>(std::move(loaded));
  if (state->parameters.Fingerprint() == FingerprintOf(options_.specs) && state->slots.size() == options_.slot_names.size()) return state;
  return absl::FailedPreconditionError(
      fmt::format("{}: the state loaded to fill servers is of another model, or has {} optimizer slots and not {}", core_->name(),
                  state->slots.size(), options_.slot_names.size()));
}

bool KvClient::IsReady() const { return core_->Await(KvGoal::kAllReady, absl::ZeroDuration()); }

absl::Status KvClient::Reach(KvGoal goal, const Deadline& deadline, std::string_view what) {
  LongWait wait(core_->name(), options_.clock->Now(), options_.on_wait);
  while (true) {
    TY_RETURN_IF_ERROR(CheckLine());
    if (goal != KvGoal::kAllUp) TY_RETURN_IF_ERROR(FillEmptyServers().status());
    const absl::Duration left = deadline.time - options_.clock->Now();
    if (core_->Await(goal, std::clamp(left, absl::ZeroDuration(), kLookPeriod))) return absl::OkStatus();
    wait.Look(options_.clock->Now(), [this] { return IsReady() ? "" : core_->DescribeNotReady(); });
    if (left > absl::ZeroDuration()) continue;
    TY_RETURN_IF_ERROR(core_->error());
    return absl::DeadlineExceededError(
        fmt::format("{}: {} for {}: {}", core_->name(), what, absl::FormatDuration(deadline.allowed), core_->DescribeNotReady()));
  }
}

absl::Status KvClient::PullState(TrainingState& state, bool with_slots) {
  core_->StartPull(&state, with_slots);
  const absl::Status status = Reach(KvGoal::kPulled, After(options_.timeouts.peer), "Pull: waited for parameters");
  const PartPull::Steps steps = core_->EndPull();
  if (!status.ok() || !IsSync() || steps.lowest == steps.highest) return status;
  return absl::FailedPreconditionError(fmt::format("{}: Pull: parts are at steps {} to {}, which is not a state of the training",
                                                   core_->name(), steps.lowest, steps.highest));
}

absl::StatusOr<int64_t> KvClient::FillEmptyServers() {
  if (options_.mode == KvMode::kSync || !options_.chief) return 0;
  const std::vector<int> empty = core_->EmptyServers();
  if (empty.empty()) return 0;
  TY_ASSIGN_OR_RETURN(const std::shared_ptr<TrainingState> state, LoadState(newest_ != nullptr));
  if (newest_ != nullptr) {
    CopyValues(*newest_, state->parameters);
  }
  const int64_t step = std::max(state->step, core_->global_step());
  const KvLine line{.line = NewLine(), .step = newest_ != nullptr ? step : state->step};
  for (const int server : empty) {
    if (step != state->step) {
      const std::string_view values = newest_ != nullptr ? "the newest that the chief has"
                                      : state->step > 0  ? "those of the newest checkpoint"
                                                         : "the start values, since there is no checkpoint";
      LogWarning("{}: server {} lost its state; its parameters are {}, its optimizer slots those of step {}, {} steps behind",
                 core_->name(), server, values, state->step, step - state->step);
    }
    core_->Fill(server, state, step, line);
  }
  return step - state->step;
}

std::vector<int> KvClient::SendNewest() {
  if (IsSync() || newest_ == nullptr) return {};
  std::vector<int> behind = core_->TakeServersBehind(seen_step_);
  if (behind.empty()) return behind;
  const auto values = std::make_shared<const ParameterSet>(CopyOf(*newest_));
  for (const int server : behind) core_->SendNewer(server, values, seen_step_);
  return behind;
}

absl::StatusOr<std::unique_ptr<KvClient>> KvClient::Create(KvClientOptions options, Transport& transport) {
  if (options.servers.empty()) return absl::InvalidArgumentError("a worker needs at least one server address");
  if (options.workers < 1 || (options.worker != kObserver && (options.worker < 0 || options.worker >= options.workers))) {
    return absl::InvalidArgumentError(
        fmt::format("worker {} of {}: expected an index below the number of workers", options.worker, options.workers));
  }
  if (options.chief && (options.worker == kObserver || !options.load)) {
    return absl::InvalidArgumentError("the chief must be a worker and have something to load start values with");
  }
  return std::unique_ptr<KvClient>(new KvClient(std::move(options), transport));
}

}  // namespace trainyard::engine
