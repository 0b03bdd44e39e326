#include "trainer/train/allreduce_updater.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

absl::Status AsRollback(const absl::Status& status) { return absl::IsAborted(status) ? RolledBack(std::string(status.message())) : status; }

std::string BucketName(const BucketCut& cut, const std::function<std::string(int)>& name) {
  const std::string first = fmt::format("'{}'", name(cut.front().tensor));
  return cut.size() == 1 ? first : fmt::format("{} to '{}'", first, name(cut.back().tensor));
}

}  // namespace

AllReduceUpdater::AllReduceUpdater(AllReduceUpdaterOptions options, std::unique_ptr<Transport> transport)
    : options_(std::move(options)), transport_(std::move(transport)) {
  // Backward finishes the last layers first.
  std::ranges::sort(options_.keys, std::greater());
  pushed_.resize(options_.specs.size());
  buckets_of_.resize(options_.specs.size());
}

absl::StatusOr<std::unique_ptr<AllReduceUpdater>> AllReduceUpdater::Create(AllReduceUpdaterOptions options,
                                                                           std::unique_ptr<Transport> transport) {
  std::unique_ptr<AllReduceUpdater> updater(new AllReduceUpdater(std::move(options), std::move(transport)));
  TY_RETURN_IF_ERROR(updater->Connect());
  return updater;
}

absl::Status AllReduceUpdater::Connect() {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(options_.optimizer));
  TY_ASSIGN_OR_RETURN(local_,
                      LocalUpdater::Create(options_.optimizer, [this]() -> absl::StatusOr<TrainingState> { return std::move(loaded_); }));
  TY_RETURN_IF_ERROR(WithMemoryFor("sums of gradients", BytesOf(options_.specs), [this] {
    sums_ = ParameterSet(options_.specs);
    return absl::OkStatus();
  }));
  options_.group.fingerprint = FingerprintOf(options_.specs);
  options_.group.agreement.emplace_back("the parameters' digest", fmt::format("{:016x}", options_.group.fingerprint));
  options_.group.agreement.emplace_back("the number of parameters with gradients", fmt::format("{}", options_.keys.size()));
  options_.group.agreement.emplace_back("the bucket size", fmt::format("{}", kBucketBytes));
  step_plan_ = PlanStep();
  state_plan_ = PlanState();
  const int rank = options_.group.rank;
  const auto ranks = static_cast<int>(options_.group.hosts.size());
  TY_ASSIGN_OR_RETURN(group_, RankGroup::Create(options_.group, *transport_));
  step_operation_ = std::make_unique<Operation>(step_plan_, rank, ranks, group_->borrowed());
  state_operation_ = std::make_unique<Operation>(state_plan_, rank, ranks, group_->borrowed());
  return absl::OkStatus();
}

OperationPlan AllReduceUpdater::PlanStep() {
  std::vector<size_t> elements;
  for (const int key : options_.keys) elements.push_back(static_cast<size_t>(options_.specs[key].shape.elements()));
  step_cut_ = CutIntoBuckets(elements, kBucketBytes);
  const auto ranks = static_cast<int>(options_.group.hosts.size());
  OperationPlan plan{.name = "all-reduce", .buckets = {}};
  for (size_t bucket = 0; bucket < step_cut_.size(); ++bucket) {
    const size_t size = ElementsOf(step_cut_[bucket]);
    const AllReduceAlgorithm algorithm = Choose(options_.group.algorithm, size * sizeof(float), ranks);
    plan.buckets.push_back(
        {.name = BucketName(step_cut_[bucket], [this](int tensor) { return options_.specs[options_.keys[tensor]].name; }),
         .elements = size,
         .schedule = AllReduce(algorithm, options_.group.rank, ranks, size)});
    for (const BucketSegment& segment : step_cut_[bucket]) buckets_of_[options_.keys[segment.tensor]].push_back(bucket);
  }
  return plan;
}

OperationPlan AllReduceUpdater::PlanState() {
  const size_t sets = 1 + (*MakeOptimizer(options_.optimizer))->slot_names().size();
  const size_t keys = options_.specs.size();
  std::vector<size_t> elements;
  for (size_t set = 0; set < sets; ++set) {
    for (const ParameterSpec& spec : options_.specs) elements.push_back(static_cast<size_t>(spec.shape.elements()));
  }
  state_cut_ = CutIntoBuckets(elements, kBucketBytes);
  OperationPlan plan{.name = "broadcast of the state", .buckets = {}};
  for (const BucketCut& cut : state_cut_) {
    const size_t size = ElementsOf(cut);
    plan.buckets.push_back(
        {.name = BucketName(cut, [&](int tensor) { return options_.specs[static_cast<size_t>(tensor) % keys].name; }),
         .elements = size,
         .schedule = ::trainyard::engine::Broadcast(options_.group.rank, static_cast<int>(options_.group.hosts.size()), size)});
  }
  return plan;
}

absl::StatusOr<TrainingStart> AllReduceUpdater::Start(ParameterSet& parameters) {
  begun_ = -1;
  while (true) {
    absl::StatusOr<TrainingStart> start = first() ? StartFirst(parameters) : StartOther(parameters);
    if (start.ok() || !absl::IsAborted(start.status())) return start;
    because_ = std::string(start.status().message());
    LogWarning("rank {}: {}; the group forms anew", options_.group.rank, because_);
  }
}

absl::Status AllReduceUpdater::LoadIfNeeded(const Gathered& gathered, ParameterSet& parameters) {
  if (!has_trained_ && gathered.furthest <= 0) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const bool carries, options_.carries_state());
  if (!carries && !gathered.from_checkpoint && !from_checkpoint_) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(loaded_, options_.load(/*again=*/true));
  from_checkpoint_ = false;
  return local_->Start(parameters).status();
}

absl::StatusOr<TrainingStart> AllReduceUpdater::StartFirst(ParameterSet& parameters) {
  if (!has_state_) {
    // Where nothing is left to train, nobody else is needed: the others may have ended.
    TY_ASSIGN_OR_RETURN(loaded_, options_.load(/*again=*/false));
    TY_RETURN_IF_ERROR(local_->Start(parameters).status());
    has_state_ = true;
  }
  TY_ASSIGN_OR_RETURN(const bool finished, options_.finished(local_->global_step()));
  if (finished) {
    const int64_t step = local_->global_step();
    group_->Finish(step);
    return TrainingStart{.global_step = step, .worker_step = step, .line_step = step, .finished = true};
  }
  TY_ASSIGN_OR_RETURN(const Gathered gathered, group_->Gather());
  if (because_.empty()) because_ = gathered.because;
  if (has_trained_) reached_ = std::max(reached_, local_->global_step());
  reached_ = std::max(reached_, gathered.furthest);
  TY_RETURN_IF_ERROR(LoadIfNeeded(gathered, parameters));
  const int64_t step = local_->global_step();
  group_->Form(step);
  TY_RETURN_IF_ERROR(local_->Look(parameters, [&](const StateView& state) { return Broadcast(step, &state, nullptr); }));
  TrainingStart start{.global_step = step, .worker_step = step, .joined = gathered.furthest >= 0, .line_step = step};
  if (reached_ > step) start.redone = RedoneSteps{.from = step, .to = reached_, .reason = because_};
  has_trained_ = true;
  reached_ = -1;
  because_.clear();
  return start;
}

absl::StatusOr<TrainingStart> AllReduceUpdater::StartOther(ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const Formed formed, group_->Join({.agreement = {},
                                                         .furthest = has_trained_ ? local_->global_step() : -1,
                                                         .because = because_,
                                                         .from_checkpoint = from_checkpoint_}));
  const int64_t step = formed.step;
  if (formed.finished) {
    return TrainingStart{.global_step = step, .worker_step = step, .joined = true, .ended = true, .line_step = step, .finished = true};
  }
  TY_ASSIGN_OR_RETURN(TrainingState state, options_.empty_state());
  TY_RETURN_IF_ERROR(Broadcast(step, nullptr, &state));
  state.step = step;
  loaded_ = std::move(state);
  TY_RETURN_IF_ERROR(local_->Start(parameters).status());
  has_trained_ = true;
  from_checkpoint_ = false;
  because_.clear();
  return TrainingStart{.global_step = step, .worker_step = step, .joined = true, .line_step = step};
}

absl::Status AllReduceUpdater::Broadcast(int64_t step, const StateView* give, TrainingState* take) {
  if (group_->ranks() == 1) return absl::OkStatus();
  const size_t keys = options_.specs.size();
  group_->Begin(*state_operation_, {.step = step, .reduces = false});
  for (size_t bucket = 0; bucket < state_cut_.size(); ++bucket) {
    BucketValues values;
    for (const BucketSegment& segment : state_cut_[bucket]) {
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
  TY_CHECK(step == local_->global_step());
  begun_ = step;
  has_examples_ = false;
  missing_.clear();
  for (const BucketCut& cut : step_cut_) missing_.push_back(cut.size());
  group_->Begin(*step_operation_, {.step = step, .reduces = true});
}

void AllReduceUpdater::Push(int key, const GradientView& gradient, int64_t step) {
  BeginStep(step);
  has_examples_ = true;
  pushed_[key] = gradient;
  Count(key);
}

void AllReduceUpdater::PushNothing(int key, int64_t step) {
  if (buckets_of_[key].empty()) return;
  BeginStep(step);
  TY_CHECK(!has_examples_);  // what a step with examples leaves is the same with every batch
  Count(key);
}

void AllReduceUpdater::Count(int key) {
  for (const size_t bucket : buckets_of_[key]) {
    if (--missing_[bucket] == 0) Contribute(bucket);
  }
}

void AllReduceUpdater::Contribute(size_t bucket) {
  BucketValues values;
  for (const BucketSegment& segment : step_cut_[bucket]) {
    const int key = options_.keys[segment.tensor];
    if (has_examples_) values.own.push_back(pushed_[key].values.subspan(segment.begin, segment.count));
    values.targets.push_back({.values = sums_.values(key).subspan(segment.begin, segment.count),
                              .divisor = options_.specs[key].trainable ? Divisor::kRanks : Divisor::kContributors});
  }
  group_->Contribute(bucket, std::move(values));
}

absl::StatusOr<StepResult> AllReduceUpdater::Wait(ParameterSet& parameters) {
  const int64_t step = local_->global_step();
  BeginStep(step);
  absl::StatusOr<Waited> waited = group_->Wait();
  begun_ = -1;
  if (!waited.ok()) {
    if (absl::IsAborted(waited.status())) because_ = std::string(waited.status().message());
    return AsRollback(waited.status());
  }
  if (waited->ended) {
    group_->FinishHere();
    return StepResult{.global_step = step, .ended = true};
  }
  for (const int key : options_.keys) {
    const bool learned = std::ranges::all_of(buckets_of_[key], [this](size_t bucket) { return step_operation_->contributors(bucket) > 0; });
    if (learned) local_->Push(key, std::as_const(sums_).values(key), step);
  }
  TY_ASSIGN_OR_RETURN(const StepResult result, local_->Wait(parameters));
  if (result.global_step >= options_.end_step) {
    if (first()) {
      group_->Finish(result.global_step);
    } else {
      group_->FinishHere();
    }
  }
  return result;
}

absl::Status AllReduceUpdater::End(int64_t step) {
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
