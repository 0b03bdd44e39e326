#include "trainer/train/allreduce_updater.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {
namespace {

absl::Status AsRollback(const absl::Status& status) { return absl::IsAborted(status) ? RolledBack(std::string(status.message())) : status; }

}  // namespace

AllReduceUpdater::AllReduceUpdater(AllReduceUpdaterOptions options, std::unique_ptr<Transport> transport)
    : options_(std::move(options)), transport_(std::move(transport)), layout_(static_cast<int>(options_.group.hosts.size())) {
  // Backward finishes the last layers first.
  std::ranges::sort(options_.keys, std::greater());
  pushed_.resize(options_.specs.size());
  if (options_.group.algorithm != AllReduceAlgorithm::kAuto) {
    choice_ = {.small = options_.group.algorithm, .large = options_.group.algorithm};
  }
}

absl::StatusOr<std::unique_ptr<AllReduceUpdater>> AllReduceUpdater::Create(AllReduceUpdaterOptions options,
                                                                           std::unique_ptr<Transport> transport) {
  std::unique_ptr<AllReduceUpdater> updater(new AllReduceUpdater(std::move(options), std::move(transport)));
  TY_RETURN_IF_ERROR(updater->Connect());
  return updater;
}

absl::Status AllReduceUpdater::Connect() {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(options_.optimizer));
  TY_CHECK((options_.device != nullptr) == !options_.group.device_kind.empty());
  TY_CHECK(options_.device == nullptr || !options_.shard_optimizer);
  TY_ASSIGN_OR_RETURN(copy_, RankCopy::Create(options_.optimizer, options_.threads, options_.device));
  TY_RETURN_IF_ERROR(WithMemoryFor("sums of gradients", BytesOf(options_.specs), [this] {
    sums_ = ParameterSet(options_.specs, options_.lendable.get());
    return absl::OkStatus();
  }));
  options_.group.fingerprint = FingerprintOf(options_.specs);
  options_.group.agreement.emplace_back("the parameters' digest", fmt::format("{:016x}", options_.group.fingerprint));
  options_.group.agreement.emplace_back("the number of parameters with gradients", fmt::format("{}", options_.keys.size()));
  options_.group.agreement.emplace_back("the bucket size", fmt::format("{}", options_.bucket_bytes));
  const size_t slots = options_.shard_optimizer ? 0 : optimizer->slot_names().size();  // sharded ones travel by themselves
  if (options_.shard_optimizer || options_.group.hosts.size() == 1) options_.row_keys.clear();
  plans_ = std::make_unique<BucketPlans>(options_.specs, options_.keys, options_.row_keys, slots, options_.bucket_bytes);
  rows_ = std::make_unique<RowSums>(options_.specs, options_.row_keys, options_.group.rank, options_.devices, options_.bucket_bytes);
  if (options_.shard_optimizer) {
    sharded_ = std::make_unique<ShardedSlots>(ShardedSlotsOptions{.optimizer = options_.optimizer,
                                                                  .specs = options_.specs,
                                                                  .keys = options_.keys,
                                                                  .cut = plans_->step_cut(),
                                                                  .bucket_names = bucket_names(),
                                                                  .rank = options_.group.rank,
                                                                  .ranks = static_cast<int>(options_.group.hosts.size()),
                                                                  .devices = options_.devices});
    options_.group.on_ask = [sharded = sharded_.get()](int64_t step) { return sharded->Offer(step); };
  }
  options_.group.agreement.emplace_back("the number of devices", fmt::format("{}", options_.devices));
  options_.group.agreement.emplace_back("shardOptimizer", options_.shard_optimizer ? "true" : "false");
  options_.group.agreement.emplace_back("the parameters whose touched rows travel", fmt::format("{}", fmt::join(options_.row_keys, " ")));
  TY_ASSIGN_OR_RETURN(group_, RankGroup::Create(options_.group, *transport_));
  MakeStepOperation();
  return absl::OkStatus();
}

void AllReduceUpdater::MakeStepOperation() {
  step_operation_ = nullptr;
  step_plan_ = plans_->Step(choice_, options_.group.rank, layout_, options_.devices);
  step_operation_ = std::make_unique<Operation>(step_plan_, options_.group.rank, group_->ranks(), group_->borrowed(), group_->results());
}

absl::Status AllReduceUpdater::FollowGroup(ParameterSet& parameters) {
  TY_RETURN_IF_ERROR(copy_->Place(group_->one_device_kind(), parameters));
  return ChooseAlgorithms();
}

absl::Status AllReduceUpdater::ChooseAlgorithms() {
  if (group_->ranks() == 1) return absl::OkStatus();  // nothing is added
  const RankLayout layout = group_->layout();
  AlgorithmChoice choice = choice_;
  AllReduceRecord record;
  std::string costs;
  if (options_.group.algorithm == AllReduceAlgorithm::kAuto) {
    TY_ASSIGN_OR_RETURN(const MeasuredNetwork measured,
                        MeasureNetwork(*group_, {.rank = options_.group.rank, .clock = options_.group.clock}));
    // Halving-doubling gives no slots to the ranks beyond a power of two.
    const bool spreads = !sharded_ || OfManyRounds(layout) != AllReduceAlgorithm::kHalvingDoubling ||
                         std::has_single_bit(static_cast<unsigned>(layout.ranks));
    choice = spreads ? measured.choice : AlgorithmChoice{};
    const double byte = choice.large == AllReduceAlgorithm::kDirect ? measured.cost.direct_byte : measured.cost.rounds_byte;
    record.latency_seconds = measured.cost.latency;
    if (byte > 0) record.bytes_per_second = 1 / byte;
    costs = "; " + CostText(measured.cost, choice);
  }
  record.algorithm = ChoiceText(choice, layout);
  LogInfo("all-reduce: {}{}", record.algorithm, costs);
  if (choice != choice_ || layout != layout_) {
    choice_ = choice;
    layout_ = layout;
    MakeStepOperation();
  }
  if (options_.on_algorithms) options_.on_algorithms(record);
  return absl::OkStatus();
}

absl::StatusOr<TrainingStart> AllReduceUpdater::Start(ParameterSet& parameters) {
  begun_ = -1;
  parameters_ = &parameters;
  while (true) {
    absl::StatusOr<TrainingStart> start = first() ? StartFirst(parameters) : StartOther(parameters);
    if (start.ok()) return start;
    const bool gives_up = !absl::IsAborted(start.status()) && !absl::IsCancelled(start.status());
    if (gives_up && !because_.empty()) {
      const std::string step = has_trained_ ? fmt::format(" at step {}", copy_->step()) : "";
      return absl::Status(start.status().code(),
                          fmt::format("{}; the group broke{}: {}", std::string(start.status().message()), step, because_));
    }
    if (!absl::IsAborted(start.status())) return start;
    because_ = std::string(start.status().message());
    LogWarning("rank {}: {}; the group forms anew", options_.group.rank, because_);
  }
}

bool AllReduceUpdater::LacksSlots() const { return sharded_ && !sharded_->has_whole(); }

absl::StatusOr<bool> AllReduceUpdater::MustLoad(const Gathered& gathered) const {
  if (!has_trained_ && gathered.furthest <= 0) return false;
  TY_ASSIGN_OR_RETURN(const bool carries, options_.carries_state());
  return carries || gathered.from_checkpoint || from_checkpoint_ || LacksSlots();
}

absl::StatusOr<Formed> AllReduceUpdater::ChooseState(const Gathered& gathered, ParameterSet& parameters) {
  const bool again = has_trained_ || gathered.furthest >= 0;
  TY_ASSIGN_OR_RETURN(const bool must_load, MustLoad(gathered));
  if (must_load) {
    TY_ASSIGN_OR_RETURN(TrainingState state, options_.load(/*again=*/true));
    from_checkpoint_ = false;
    TY_RETURN_IF_ERROR(Take(std::move(state), parameters));
  } else if (gathered.furthest > copy_->step() && (!sharded_ || !sharded_->has_slots())) {
    LogInfo("worker {} has the parameters of step {}: the training goes on from there", gathered.rank, gathered.furthest);
    return Formed{.step = gathered.furthest, .root = gathered.rank, .origin = gathered.origin, .again = again};
  }
  return Formed{.step = copy_->step(), .origin = origin_, .again = again};
}

absl::Status AllReduceUpdater::Take(TrainingState state, ParameterSet& parameters) {
  origin_ = state.origin;
  if (sharded_ && first()) sharded_->SetWhole(std::exchange(state.slots, {}));
  return copy_->Take(std::move(state), parameters);
}

absl::StatusOr<TrainingStart> AllReduceUpdater::StartFirst(ParameterSet& parameters) {
  if (!has_state_) {
    // Where nothing is left to train, nobody else is needed: the others may have ended.
    TY_ASSIGN_OR_RETURN(TrainingState state, options_.load(/*again=*/false));
    TY_RETURN_IF_ERROR(Take(std::move(state), parameters));
    has_state_ = true;
  }
  TY_ASSIGN_OR_RETURN(const bool finished, options_.finished(copy_->step()));
  if (finished && !LacksSlots()) {
    const int64_t step = copy_->step();
    group_->Finish(step);
    return TrainingStart{.global_step = step, .worker_step = step, .line_step = step, .finished = true};
  }
  TY_ASSIGN_OR_RETURN(const Gathered gathered, group_->Gather());
  if (because_.empty()) because_ = gathered.because;
  if (has_trained_) reached_ = std::max(reached_, copy_->step());
  reached_ = std::max(reached_, gathered.furthest);
  TY_ASSIGN_OR_RETURN(const Formed formed, ChooseState(gathered, parameters));
  group_->Form(formed);
  TY_RETURN_IF_ERROR(FollowGroup(parameters));
  TY_RETURN_IF_ERROR(ShareState(formed, parameters));
  const int64_t step = formed.step;
  TrainingStart start{.global_step = step,
                      .worker_step = step,
                      .joined = gathered.furthest >= 0,
                      .again = formed.again,
                      .line_step = step,
                      .origin = origin_};
  if (reached_ > step) start.redone = RedoneSteps{.from = step, .to = reached_, .reason = because_};
  has_trained_ = true;
  reached_ = -1;
  because_.clear();
  return start;
}

absl::StatusOr<TrainingStart> AllReduceUpdater::StartOther(ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const Formed formed, group_->Join({.agreement = {},
                                                         .furthest = has_trained_ ? copy_->step() : -1,
                                                         .origin = origin_,
                                                         .because = because_,
                                                         .from_checkpoint = from_checkpoint_}));
  const int64_t step = formed.step;
  if (formed.finished) {
    return TrainingStart{.global_step = step, .worker_step = step, .joined = true, .ended = true, .line_step = step, .finished = true};
  }
  TY_RETURN_IF_ERROR(FollowGroup(parameters));
  TY_RETURN_IF_ERROR(ShareState(formed, parameters));
  has_trained_ = true;
  from_checkpoint_ = false;
  because_.clear();
  return TrainingStart{
      .global_step = step, .worker_step = step, .joined = true, .again = formed.again, .line_step = step, .origin = origin_};
}

absl::Status AllReduceUpdater::ShareState(const Formed& formed, ParameterSet& parameters) {
  const int rank = options_.group.rank;
  TrainingState state;
  if (rank == formed.root) {
    const auto give = [&](const StateView& own) { return Broadcast(formed, &own, nullptr); };
    TY_RETURN_IF_ERROR(copy_->updater().Look(parameters, give));
  } else {
    TY_ASSIGN_OR_RETURN(state, EmptyState());
    TY_RETURN_IF_ERROR(Broadcast(formed, nullptr, &state));
  }
  if (sharded_) TY_RETURN_IF_ERROR(sharded_->Spread(*group_, choice_, formed.step));
  if (rank != formed.root) {
    state.step = formed.step;
    state.origin = formed.origin;
    TY_RETURN_IF_ERROR(Take(std::move(state), parameters));
  }
  end_step_ = options_.end_step(origin_);
  return FinishAtEnd();
}

absl::StatusOr<TrainingState> AllReduceUpdater::EmptyState() {
  if (!sharded_) return options_.empty_state();
  TrainingState state;
  TY_RETURN_IF_ERROR(WithMemoryFor("parameters", BytesOf(options_.specs), [&] {
    state.parameters = ParameterSet(options_.specs);
    return absl::OkStatus();
  }));
  return state;
}

absl::Status AllReduceUpdater::Broadcast(const Formed& formed, const StateView* give, TrainingState* take) {
  if (group_->ranks() == 1) return absl::OkStatus();
  const size_t keys = options_.specs.size();
  const OperationPlan plan = plans_->State(options_.group.rank, group_->ranks(), formed.root);
  Operation operation(plan, options_.group.rank, group_->ranks(), group_->borrowed());
  group_->Begin(operation, {.step = formed.step, .kind = OperationId::Kind::kState});
  for (size_t bucket = 0; bucket < plans_->state_cut().size(); ++bucket) {
    BucketValues values;
    for (const BucketSegment& segment : plans_->state_cut()[bucket]) {
      const size_t set = static_cast<size_t>(segment.tensor) / keys;
      const auto key = static_cast<int>(static_cast<size_t>(segment.tensor) % keys);
      if (give != nullptr) {
        values.own.push_back((set == 0 ? give->parameters : give->slots[set - 1]).values(key).subspan(segment.begin, segment.count));
      } else {
        ParameterSet& into = set == 0 ? take->parameters : take->slots[set - 1];
        values.targets.push_back({.values = into.values(key).subspan(segment.begin, segment.count)});
      }
    }
    group_->Contribute(bucket, std::move(values));
  }
  return group_->Wait().status();
}

void AllReduceUpdater::BeginStep(int64_t step) {
  if (begun_ == step) return;
  TY_CHECK(step == copy_->step());
  begun_ = step;
  addends_ = 0;
  missing_.clear();
  for (const BucketCut& cut : plans_->step_cut()) missing_.push_back(cut.size());
  if (sharded_) sharded_->shard().Begin(step, *parameters_, sums_);
  group_->Begin(*step_operation_, {.step = step, .kind = OperationId::Kind::kReduce});
}

void AllReduceUpdater::Push(int key, const GradientView& gradient, int64_t step) {
  BeginStep(step);
  addends_ = gradient.addends;
  pushed_[key] = gradient;
  if (rows_->Has(key)) rows_->Mark(key, gradient);
  Count(key);
  group_->Poll();
}

void AllReduceUpdater::PushNothing(int key, int64_t step) {
  if (plans_->BucketsOf(key).empty()) return;
  BeginStep(step);
  TY_CHECK(addends_ == 0);  // what a step with examples leaves is the same with every batch
  Count(key);
}

void AllReduceUpdater::Count(int key) {
  for (const size_t bucket : plans_->BucketsOf(key)) {
    if (--missing_[bucket] == 0) Contribute(bucket);
  }
}

void AllReduceUpdater::Contribute(size_t bucket) {
  BucketValues values{.addends = std::max(1, addends_)};
  for (const BucketSegment& segment : plans_->step_cut()[bucket]) {
    const int key = options_.keys[segment.tensor];
    const bool rows = rows_->Has(key);
    if (addends_ > 0) {
      const std::span<const float> own = rows ? rows_->marks(key) : pushed_[key].values;
      values.own.push_back(own.subspan(segment.begin, segment.count));
    }
    values.targets.push_back({.values = (rows ? rows_->marked(key) : sums_.values(key)).subspan(segment.begin, segment.count),
                              .divisor = rows                            ? Divisor::kNone
                                         : options_.specs[key].trainable ? Divisor::kAll
                                                                         : Divisor::kContributors});
  }
  if (sharded_) values.owner = sharded_->shard().owner(bucket);
  group_->Contribute(bucket, std::move(values));
}

absl::StatusOr<Waited> AllReduceUpdater::AwaitSums(int64_t step) {
  SpanLog* const profile = options_.group.profile;
  if (profile == nullptr || !profile->Wants(step)) return AwaitAll(step);
  const int64_t start = profile->Now();
  absl::StatusOr<Waited> waited = AwaitAll(step);
  profile->Add({.kind = SpanKind::kWait, .step = step, .start = start, .end = profile->Now()});
  return waited;
}

absl::StatusOr<Waited> AllReduceUpdater::AwaitAll(int64_t step) {
  TY_ASSIGN_OR_RETURN(const Waited waited, group_->Wait());
  std::vector<int> keys;
  std::ranges::copy_if(options_.row_keys, std::back_inserter(keys), [this](int key) { return Learned(key); });
  if (waited.ended || keys.empty()) return waited;
  return rows_->Add(*group_, choice_, layout_, step, keys, pushed_, addends_, sums_);
}

bool AllReduceUpdater::Learned(int key) const {
  return std::ranges::all_of(plans_->BucketsOf(key), [this](size_t bucket) { return step_operation_->contributors(bucket) > 0; });
}

absl::StatusOr<StepResult> AllReduceUpdater::Wait(ParameterSet& parameters) {
  const int64_t step = copy_->step();
  BeginStep(step);
  absl::StatusOr<Waited> waited = AwaitSums(step);
  begun_ = -1;
  if (!waited.ok()) {
    if (absl::IsAborted(waited.status())) because_ = std::string(waited.status().message());
    return AsRollback(waited.status());
  }
  if (waited->ended) {
    TY_RETURN_IF_ERROR(AwaitReaders());
    group_->FinishHere();
    return StepResult{.global_step = step, .ended = true};
  }
  TY_ASSIGN_OR_RETURN(const StepResult result, Update(parameters));
  TY_RETURN_IF_ERROR(FinishAtEnd());
  return result;
}

absl::Status AllReduceUpdater::FinishAtEnd() {
  if (copy_->step() < end_step_) return absl::OkStatus();
  TY_RETURN_IF_ERROR(AwaitReaders());
  if (first()) {
    TY_RETURN_IF_ERROR(KeepState());
    group_->Finish(copy_->step());
  } else {
    group_->FinishHere();
  }
  return absl::OkStatus();
}

absl::StatusOr<StepResult> AllReduceUpdater::Update(ParameterSet& parameters) {
  for (const int key : options_.keys) {
    if (!Learned(key)) continue;
    if (sharded_) {
      std::ranges::copy(std::as_const(sums_).values(key), parameters.values(key).begin());
    } else {
      copy_->Push(key, std::as_const(sums_).gradient(key));
    }
  }
  if (sharded_) sharded_->ForgetWhole();
  return copy_->Wait(parameters);
}

absl::Status AllReduceUpdater::AwaitReaders() {
  const absl::Status read = group_->AwaitReaders();
  if (absl::IsAborted(read)) because_ = std::string(read.message());
  return AsRollback(read);
}

absl::Status AllReduceUpdater::KeepState() {
  if (!sharded_) return absl::OkStatus();
  const absl::Status kept = sharded_->Keep(*group_, copy_->step());
  if (absl::IsAborted(kept)) {
    because_ = std::string(kept.message());
    group_->Leave(because_).IgnoreError();  // the others have their last step behind them, and wait
  }
  return AsRollback(kept);
}

absl::StatusOr<TrainingState> AllReduceUpdater::State(const ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(TrainingState state, copy_->updater().State(parameters));
  if (!sharded_) return state;
  absl::StatusOr<std::vector<ParameterSet>> slots = sharded_->Gather(*group_, state.step);
  if (!slots.ok()) return AsRollback(slots.status());
  state.slots = *std::move(slots);
  return state;
}

absl::Status AllReduceUpdater::Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) {
  if (!sharded_) return copy_->updater().Look(parameters, use);
  const int64_t step = copy_->step();
  if (const std::vector<ParameterSet>* const whole = sharded_->whole()) return use(StateView(parameters, *whole, step));
  const absl::StatusOr<std::vector<ParameterSet>> slots = sharded_->Gather(*group_, step);
  if (!slots.ok()) return AsRollback(slots.status());
  return use(StateView(parameters, *slots, step));
}

void AllReduceUpdater::ServeOthers() {
  if (sharded_ && !first()) group_->AwaitApart(options_.group.timeouts.stop / 2);
}

absl::Status AllReduceUpdater::End(int64_t step) {
  TY_RETURN_IF_ERROR(AwaitReaders());
  TY_RETURN_IF_ERROR(KeepState());
  group_->End(step);
  return absl::OkStatus();
}

absl::Status AllReduceUpdater::AskForRollback(const std::string& reason) {
  from_checkpoint_ = true;
  because_ = reason;
  return AsRollback(group_->Leave(reason));
}

absl::Status AllReduceUpdater::Release() {
  group_->Release();
  return absl::OkStatus();
}

absl::Status AllReduceUpdater::AwaitRelease() { return AsRollback(group_->AwaitRelease()); }

}  // namespace trainyard::engine
