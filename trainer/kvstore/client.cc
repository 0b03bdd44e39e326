#include "trainer/kvstore/client.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/kvstore/client_core.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kGoodbyeDeadline = absl::Seconds(2);
constexpr absl::Duration kReleaseDeadline = absl::Seconds(10);
constexpr absl::Duration kLookPeriod = absl::Seconds(1);  // while waiting, the deadline is looked at this often

using Goal = KvClientCore::Goal;

class DiallingKvClient final : public KvClient {
 public:
  DiallingKvClient(KvClientOptions options, Transport& transport)
      : core_(std::make_shared<KvClientCore>(std::move(options), transport)), options_(core_->options()), tender_([core = core_] {
          while (core->AwaitTend(core->Tend(absl::Now()))) {
          }
        }) {}

  ~DiallingKvClient() override {
    core_->Shut(/*goodbye=*/false);
    tender_.join();
    if (!core_->AwaitShut(absl::Now() + kReleaseDeadline) || !core_->borrowed().AwaitNone(absl::Now() + kReleaseDeadline)) {
      spdlog::error("{}: gradients are still being sent while the client is destroyed", core_->name());
    }
  }

  absl::StatusOr<KvStart> Start(ParameterSet& parameters) override {
    const absl::Time deadline = absl::Now() + options_.connect_deadline;
    if (options_.chief && !core_->Await(Goal::kAllUp, deadline)) return Late("Start: could not connect", options_.connect_deadline);
    KvStart start;
    start.joined = core_->any_ready() || !options_.chief;
    TY_RETURN_IF_ERROR(Reach(Goal::kAllReady, deadline, "Start: waited for initialised servers", options_.connect_deadline));
    TY_ASSIGN_OR_RETURN(const KvState state, Pull(/*with_slots=*/false));
    for (int key = 0; key < parameters.size(); ++key) std::ranges::copy(state.parameters.values(key), parameters.values(key).begin());
    start.worker_step = core_->worker_step() >= 0 ? core_->worker_step() : core_->global_step();
    start.global_step = options_.mode == KvMode::kSync ? start.worker_step : core_->global_step();
    core_->SetPosition(start.worker_step);
    start.ended = core_->ended();
    seen_step_ = start.global_step;
    core_->TakeRefilled();
    return start;
  }

  void PushGradient(int key, const GradientView& gradient, int64_t step) override {
    pushed_ = true;
    core_->Push(key, gradient, step);
  }

  absl::StatusOr<KvStepResult> Wait(ParameterSet& parameters) override {
    core_->Flush();
    KvStepResult result;
    Clock& clock = *options_.clock;
    absl::Time deadline = clock.Now() + options_.wait_deadline;
    while (true) {
      TY_RETURN_IF_ERROR(core_->error());
      TY_ASSIGN_OR_RETURN(const int64_t lost, FillEmptyServers());
      result.lost_steps = std::max(result.lost_steps, lost);
      const std::vector<KvClientCore::Arrived> arrived = core_->AwaitAnswers(std::min(deadline - clock.Now(), kLookPeriod));
      for (const KvClientCore::Arrived& answer : arrived) {
        SpanLog* const profile = options_.profile != nullptr && options_.profile->Wants(answer.step) ? options_.profile : nullptr;
        const int64_t start = profile != nullptr ? profile->Now() : 0;
        core_->Store(answer, parameters);
        if (profile != nullptr) {
          profile->Add({.kind = SpanKind::kPull, .id = answer.part, .step = answer.step, .start = start, .end = profile->Now()});
        }
      }
      if (!arrived.empty()) {
        deadline = clock.Now() + options_.wait_deadline;
        continue;
      }
      if (core_->FinishStep(pushed_)) break;
      deadline = std::max(deadline, core_->held_back_at() + options_.wait_deadline);
      if (clock.Now() >= deadline) {
        return absl::DeadlineExceededError(fmt::format("{}: Wait: no answer within {} for {}", core_->name(),
                                                       absl::FormatDuration(options_.wait_deadline), core_->DescribeOutstanding()));
      }
    }
    if (!core_->borrowed().AwaitNone(absl::Now() + options_.wait_deadline)) {
      return absl::DeadlineExceededError(fmt::format("{}: Wait: gradients are answered but still being sent", core_->name()));
    }
    result.global_step = core_->global_step();
    result.ended = core_->ended();
    result.refilled = core_->TakeRefilled();
    if (std::exchange(pushed_, false) && options_.mode == KvMode::kAsync) {
      result.staleness = std::max<int64_t>(0, result.global_step - seen_step_ - 1);
    }
    seen_step_ = result.global_step;
    return result;
  }

  absl::StatusOr<KvState> Pull(bool with_slots) override {
    KvState state{.parameters = ParameterSet(options_.specs), .slots = {}, .step = 0};
    if (with_slots) {
      for (size_t i = 0; i < options_.slot_names.size(); ++i) state.slots.emplace_back(options_.specs);
    }
    core_->StartPull(&state, with_slots);
    const absl::Status status =
        Reach(Goal::kPulled, absl::Now() + options_.wait_deadline, "Pull: waited for parameters", options_.wait_deadline);
    core_->EndPull();
    if (!status.ok()) return status;
    return state;
  }

  absl::Status End(int64_t step) override {
    core_->End(step);
    return Reach(Goal::kAllEnded, absl::Now() + options_.wait_deadline, "End: waited for the servers to confirm", options_.wait_deadline);
  }

  void ShowActivity() override { core_->ShowActivity(); }

  void Leave() override { core_->Leave(); }

  absl::Status AwaitOthers(absl::Duration deadline) override {
    const absl::Time end = absl::Now() + deadline;
    while (!core_->Await(Goal::kNobodyTrains, end)) {
      TY_RETURN_IF_ERROR(core_->error());
      TY_RETURN_IF_ERROR(FillEmptyServers().status());
      if (absl::Now() >= end) {
        return absl::CancelledError(fmt::format("{}: others still train after {}", core_->name(), absl::FormatDuration(deadline)));
      }
    }
    return absl::OkStatus();
  }

  void Done() override {
    core_->Leave();
    core_->Shut(/*goodbye=*/true);
    if (!core_->AwaitShut(absl::Now() + kGoodbyeDeadline)) spdlog::warn("{}: not every server confirmed the goodbye", core_->name());
  }

  int64_t global_step() const override { return core_->global_step(); }
  int64_t bytes_sent() const override { return core_->traffic().bytes_sent; }
  int64_t bytes_received() const override { return core_->traffic().bytes_received; }

 private:
  // Waits for the goal; the chief fills what is empty meanwhile.
  absl::Status Reach(Goal goal, absl::Time deadline, std::string_view what, absl::Duration allowed) {
    do {
      TY_RETURN_IF_ERROR(core_->error());
      TY_RETURN_IF_ERROR(FillEmptyServers().status());
      if (core_->Await(goal, deadline)) return absl::OkStatus();
    } while (absl::Now() < deadline);
    return Late(what, allowed);
  }

  absl::Status Late(std::string_view what, absl::Duration allowed) const {
    TY_RETURN_IF_ERROR(core_->error());
    return absl::DeadlineExceededError(
        fmt::format("{}: {} for {}: {}", core_->name(), what, absl::FormatDuration(allowed), core_->DescribeNotReady()));
  }

  // The chief's duty. Returns by how many steps the checkpoint is behind.
  absl::StatusOr<int64_t> FillEmptyServers() {
    const std::vector<int> empty = options_.chief ? core_->EmptyServers() : std::vector<int>();
    if (empty.empty()) return 0;
    TY_ASSIGN_OR_RETURN(KvState loaded, options_.load());
    const auto state = std::make_shared<const KvState>(std::move(loaded));
    if (state->parameters.Fingerprint() != FingerprintOf(options_.specs) || state->slots.size() != options_.slot_names.size()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: what was loaded to fill servers is of another model, or has {} optimizer slots and not {}", core_->name(),
                      state->slots.size(), options_.slot_names.size()));
    }
    const int64_t step = StepToFillAt(state->step);
    for (const int server : empty) {
      if (step != state->step) {
        spdlog::warn("{}: server {} lost its state; it is refilled from step {}, {} steps of its part are lost", core_->name(), server,
                     state->step, step - state->step);
      }
      core_->Fill(server, state, step);
    }
    return step - state->step;
  }

  // Training goes on where the workers are, with the values that could be saved.
  int64_t StepToFillAt(int64_t loaded) const {
    if (options_.mode == KvMode::kAsync) return std::max(loaded, core_->global_step());
    if (core_->position() >= 0) return core_->position();
    return core_->worker_step() >= 0 ? core_->worker_step() : loaded;
  }

  const std::shared_ptr<KvClientCore> core_;
  const KvClientOptions& options_;
  bool pushed_ = false;    // since the last Wait
  int64_t seen_step_ = 0;  // global step of the parameters in hand
  std::thread tender_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvClient>> KvClient::Create(KvClientOptions options, Transport& transport) {
  if (options.servers.empty()) return absl::InvalidArgumentError("a worker needs at least one server address");
  if (options.workers < 1 || (options.worker != kObserver && (options.worker < 0 || options.worker >= options.workers))) {
    return absl::InvalidArgumentError(
        fmt::format("worker {} of {}: expected an index below the number of workers", options.worker, options.workers));
  }
  if (options.chief && (options.worker == kObserver || !options.load)) {
    return absl::InvalidArgumentError("the chief must be a worker and have something to load start values with");
  }
  return std::make_unique<DiallingKvClient>(std::move(options), transport);
}

}  // namespace trainyard::engine
