#include "trainer/train/trainer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/data/vocabulary.h"
#include "trainer/kvstore/part_names.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/optim/clip.h"
#include "trainer/optim/optimizer.h"
#include "trainer/train/finished_mark.h"
#include "trainer/train/kvstore_updater.h"
#include "trainer/train/local_updater.h"
#include "trainer/train/make_input.h"
#include "trainer/train/output_folders.h"
#include "trainer/train/vocabulary_file.h"
#include "trainer/transport/grpc_transport.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kInputDeadline = absl::Minutes(5);
constexpr absl::Duration kOthersDeadline = absl::Hours(24);
constexpr int kStopStates = 2;  // a stop writes a worker's state for the last two steps

std::string StrategyText(const StrategyConfig& strategy) {
  if (strategy.kind == StrategyConfig::Kind::kLocal) return "local";
  return strategy.mode == StrategyConfig::Mode::kSync ? "parameterServer/sync" : "parameterServer/async";
}

SpeedUnit UnitOf(const DatasetInfo& data) {
  if (data.stream_steps == 0) return {.name = data.example_shape.rank() == 3 ? "images" : "examples"};
  return {.name = data.vocabulary->kind() == TokenKind::kWords ? "words" : "characters", .per_example = data.stream_steps};
}

}  // namespace

// Between backward and updater. Next values of parameters that are not trainable pass as they are. Gradients that need a look at all of
// them first (clipping, unequal shares of a batch) are held back until backward is done; all others leave at once.
class Trainer::Pusher final : public GradientSink {
 public:
  Pusher(Updater& updater, ParameterSet& gradients, double clip_norm) : updater_(updater), gradients_(gradients), clip_norm_(clip_norm) {}

  // `weight` is what this worker's mean must be multiplied by to make the mean over the workers the mean over all examples of the step.
  void Begin(int64_t step, float weight) {
    step_ = step;
    weight_ = weight;
    ready_.clear();
  }
  void Ready(int key) override {
    ready_.push_back(key);
    if (!HoldsBack()) updater_.Push(key, gradients_.gradient(key), step_);
  }
  void End() {
    if (!HoldsBack()) return;
    if (weight_ != 1.0F) {
      for (const int key : ready_) {
        if (gradients_.spec(key).trainable) ScaleGradient(weight_, key, gradients_);
      }
    }
    if (clip_norm_ > 0) ClipByGlobalNorm(clip_norm_, gradients_);
    for (const int key : ready_) updater_.Push(key, gradients_.gradient(key), step_);
  }

 private:
  bool HoldsBack() const { return clip_norm_ > 0 || weight_ != 1.0F; }

  Updater& updater_;
  ParameterSet& gradients_;
  const double clip_norm_;
  int64_t step_ = 0;
  float weight_ = 1.0F;
  std::vector<int> ready_;
};

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options, Backend& backend, Clock& clock) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options), backend, clock));
  TY_RETURN_IF_ERROR(trainer->Init());
  return trainer;
}

Trainer::Trainer(TrainerOptions options, Backend& backend, Clock& clock)
    : options_(std::move(options)), config_(options_.config), clock_(clock), model_(config_.model, backend) {}

Trainer::~Trainer() = default;

bool Trainer::async() const {
  return config_.strategy.kind == StrategyConfig::Kind::kParameterServer && config_.strategy.mode == StrategyConfig::Mode::kAsync;
}

absl::Status Trainer::Init() {
  const ReplicaIdentity& identity = options_.identity;
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config_.model));
  TY_ASSIGN_OR_RETURN(train_data_, OpenDataset(config_.data, Split::kTrain, expected, config_.seed));
  if (chief() && config_.data.eval) {
    TY_ASSIGN_OR_RETURN(eval_data_, OpenDataset(config_.data, Split::kEval, expected, config_.seed));
  }
  TY_ASSIGN_OR_RETURN(Sampler sampler, MakeSampler(train_data_->info(), config_, workers(), identity.trainer_rank()));
  state_place_ = {.examples = train_data_->info().examples,
                  .stream_steps = train_data_->info().stream_steps,
                  .batch_size = config_.batch_size,
                  .workers = workers(),
                  .worker = identity.trainer_rank()};
  sampler_ = std::make_unique<Sampler>(std::move(sampler));
  end_step_ = config_.epochs > 0 ? sampler_->StepsUntilEpoch(config_.epochs) : config_.steps;

  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(config_.model));
  parameters_ = ParameterSet(specs);
  gradients_ = ParameterSet(specs);
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config_.optimizer));
  slot_names_ = optimizer->slot_names();
  const std::string checkpoint_dir = CheckpointFolder(options_.output, config_);
  checkpoints_ = std::make_unique<CheckpointStore>(checkpoint_dir, config_.checkpoint.keep);
  const Vocabulary* const vocabulary = train_data_->info().vocabulary.get();
  if (vocabulary != nullptr && chief()) {
    TY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, checkpoints_->Steps());
    TY_RETURN_IF_ERROR(KeepVocabulary(checkpoint_dir, *vocabulary, !steps.empty()));
  }
  worker_states_ = std::make_unique<WorkerStateStore>(checkpoint_dir, identity.trainer_rank(), config_.checkpoint.keep + kStopStates);

  profiler_ = std::make_unique<Profiler>(ProfilerOptions{.role = std::string(RoleName(identity.role)),
                                                         .index = identity.index,
                                                         .rank = identity.trainer_rank(),
                                                         .steps = config_.profile.steps,
                                                         .output = options_.output,
                                                         .tensors = PartNames(specs, static_cast<int>(identity.ps_hosts.size()))},
                                         clock_);
  if (config_.strategy.kind == StrategyConfig::Kind::kLocal) {
    TY_ASSIGN_OR_RETURN(updater_, LocalUpdater::Create(config_.optimizer, [this] { return Load(); }));
  } else {
    TY_ASSIGN_OR_RETURN(updater_, KvstoreUpdater::Create({.servers = identity.ps_hosts,
                                                          .worker = identity.trainer_rank(),
                                                          .workers = workers(),
                                                          .chief = chief(),
                                                          .mode = async() ? KvMode::kAsync : KvMode::kSync,
                                                          .specs = specs,
                                                          .slot_names = slot_names_,
                                                          .vocabulary = vocabulary != nullptr ? vocabulary->Summary() : "",
                                                          .load = [this] { return Load(); },
                                                          .profile = &profiler_->log()},
                                                         MakeGrpcTransport()));
  }
  pusher_ = std::make_unique<Pusher>(*updater_, gradients_, config_.optimizer.clip_norm);
  TY_ASSIGN_OR_RETURN(recorder_, Recorder::Create({.role = std::string(RoleName(identity.role)),
                                                   .index = identity.index,
                                                   .chief = chief(),
                                                   .output = options_.output,
                                                   .summary_dir = SummaryFolder(options_.output, config_),
                                                   .summary_every = config_.summary.every_steps,
                                                   .total_steps = JobSteps(end_step_),
                                                   .batch_size = async() ? config_.batch_size : config_.batch_size * workers(),
                                                   .unit = UnitOf(train_data_->info()),
                                                   .perplexity = train_data_->info().stream_steps > 0,
                                                   .http_port = options_.http_port},
                                                  clock_));
  return absl::OkStatus();
}

KvState Trainer::EmptyState() const {
  KvState state{.parameters = ParameterSet({parameters_.specs().begin(), parameters_.specs().end()}), .slots = {}, .step = 0};
  for (size_t i = 0; i < slot_names_.size(); ++i)
    state.slots.emplace_back(std::vector(parameters_.specs().begin(), parameters_.specs().end()));
  return state;
}

absl::Status Trainer::CopyInto(const Checkpoint& checkpoint, KvState& state) const {
  TY_RETURN_IF_ERROR(checkpoint.CopyTo(state.parameters));
  for (size_t i = 0; i < slot_names_.size(); ++i) TY_RETURN_IF_ERROR(checkpoint.CopyTo(state.slots[i], slot_names_[i]));
  state.step = checkpoint.info().step;
  return absl::OkStatus();
}

absl::StatusOr<KvState> Trainer::Load() {
  KvState state = EmptyState();
  TY_ASSIGN_OR_RETURN(NewestCheckpoint newest, checkpoints_->LoadNewest(parameters_.Fingerprint(), config_.model.name));
  for (const SkippedCheckpoint& skipped : newest.skipped) {
    recorder_->OnRestart({.replica = "checkpoint", .reason = fmt::format("skipped {}: {}", skipped.path, skipped.reason)});
  }
  if (newest.checkpoint) {
    TY_RETURN_IF_ERROR(CopyInto(*newest.checkpoint, state));
    spdlog::info("going on from {} (step {})", newest.checkpoint->path(), state.step);
    checkpointed_step_ = state.step;
    if (newest.checkpoint->info().state.contains(kStatePlace)) resumed_ = std::move(newest.checkpoint);
    return state;
  }
  InitializeParameters(config_.model, config_.seed, state.parameters);
  if (!config_.init_from.empty()) TY_RETURN_IF_ERROR(InitFrom(config_.init_from, state.parameters));
  return state;
}

absl::Status Trainer::Run(const std::function<bool()>& stop) {
  TY_ASSIGN_OR_RETURN(const KvStart start, updater_->Start(parameters_));
  step_ = start.worker_step;
  global_step_ = start.global_step;
  if (start.joined && step_ > 0) {
    recorder_->OnRestart({.replica = fmt::format("{}-{}", RoleName(options_.identity.role), options_.identity.index),
                          .reason = "joined a running job",
                          .step = global_step_});
  }
  if (chief()) {
    TY_RETURN_IF_ERROR(ClearFinished(checkpoints_->dir()));
    TY_ASSIGN_OR_RETURN(book_, EvaluationBook::Open(config_, checkpoints_->dir(), global_step_, clock_));
    TY_RETURN_IF_ERROR(StopIfDue());
  }
  if (start.ended && step_ < end_step_) EndHere();
  spdlog::info("{} worker {} of {}: {}, steps {} to {}, batch {}, {} parameters", StrategyText(config_.strategy),
               options_.identity.trainer_rank(), workers(), train_data_->info().name, step_, end_step_, config_.batch_size,
               parameters_.elements());
  if (step_ >= end_step_) spdlog::info("all {} steps are done already: nothing to train", end_step_);
  const absl::Status trained = RunSteps(step_, stop);
  const absl::Status profiled = WriteProfile();  // of a run that ended before the last step to profile
  if (absl::IsCancelled(trained)) {
    if (chief()) TY_RETURN_IF_ERROR(SaveCheckpoint());
    if (state_ != nullptr && KeepsWorkerState()) {
      TY_RETURN_IF_ERROR(SaveWorkerState(step_ - 1, state_before_));
      TY_RETURN_IF_ERROR(SaveWorkerState(step_, *state_));
    }
    updater_->Leave();
  }
  TY_RETURN_IF_ERROR(trained);
  TY_RETURN_IF_ERROR(profiled);
  return Conclude();
}

absl::Status Trainer::RunSteps(int64_t first_step, const std::function<bool()>& stop) {
  Prefetcher input(*train_data_, *sampler_, PrefetchOptions(config_, first_step, end_step_), clock_);
  if (first_step < end_step_) {
    TY_ASSIGN_OR_RETURN(Executor* const executor, model_.TrainingExecutor(sampler_->At(first_step).rows()));
    if (chief()) TY_RETURN_IF_ERROR(recorder_->OnGraph(executor->graph()));
  }
  recorder_->OnStart(global_step_);
  while (step_ < end_step_) {
    if (stop()) return absl::CancelledError(fmt::format("stopped at step {}", step_));
    const absl::Time start = clock_.Now();
    TY_ASSIGN_OR_RETURN(const Batch* const batch, input.Next(start + kInputDeadline));
    if (step_ == 0 && chief()) TY_RETURN_IF_ERROR(recorder_->OnImages(*batch));
    TY_RETURN_IF_ERROR(BeginState(*batch));
    TY_RETURN_IF_ERROR(RunStep(step_, *batch, start));
    if (ended_) return absl::OkStatus();
    ++step_;
    if (chief()) TY_RETURN_IF_ERROR(FollowEvaluator(/*at_once=*/false));
    if (config_.checkpoint.every_steps > 0 && step_ % config_.checkpoint.every_steps == 0 && step_ < end_step_) {
      if (chief()) TY_RETURN_IF_ERROR(SaveCheckpoint());
      if (state_ != nullptr && KeepsWorkerState()) TY_RETURN_IF_ERROR(SaveWorkerState(step_, *state_));
    }
    if (batch->last_in_epoch) TY_RETURN_IF_ERROR(EndEpoch(*batch));
  }
  return absl::OkStatus();
}

absl::Status Trainer::BeginState(const Batch& batch) {
  const bool first = state_ == nullptr;
  TY_ASSIGN_OR_RETURN(state_, model_.TrainingState(batch.rows));
  if (state_ == nullptr) return absl::OkStatus();
  if (batch.step_in_epoch == 0) {
    model_.ResetState();
  } else if (const absl::Status restored = first ? RestoreState() : absl::OkStatus(); !restored.ok()) {
    model_.ResetState();
    recorder_->OnRestart({.replica = fmt::format("{}-{}", RoleName(options_.identity.role), options_.identity.index),
                          .reason = fmt::format("the state of recurrent layers starts with zeros: {}", std::string(restored.message())),
                          .step = step_});
  }
  resumed_.reset();
  if (!KeepsWorkerState()) return absl::OkStatus();
  if (first) state_before_ = ParameterSet({state_->specs().begin(), state_->specs().end()});
  for (int i = 0; i < state_->size(); ++i) std::ranges::copy(state_->values(i), state_before_.values(i).begin());
  return absl::OkStatus();
}

std::string Trainer::PlaceAfter(int64_t step) const { return StatePlace(state_place_, sampler_->PositionAfter(step)); }

absl::Status Trainer::RestoreState() {
  if (async() && !chief()) return absl::NotFoundError("workers of asynchronous jobs other than the chief keep none");
  if (!chief()) return worker_states_->Load(step_, PlaceAfter(step_), *state_);
  if (!resumed_) return absl::NotFoundError("parameters are those of running servers, or of a checkpoint without state");
  const std::string& place = resumed_->info().state.at(kStatePlace);
  if (place != PlaceAfter(step_)) {
    return absl::FailedPreconditionError(fmt::format("checkpoint {} is of {}, expected {}", resumed_->path(), place, PlaceAfter(step_)));
  }
  return resumed_->CopyTo(*state_);
}

absl::Status Trainer::RunStep(int64_t step, const Batch& batch, absl::Time start) {
  StepRecord record{
      .step = step, .epoch = batch.epoch, .rows = batch.rows, .input = batch.stages.spans(), .start = start, .input_done = clock_.Now()};
  const bool profiled = profiler_->Wants(step);
  if (profiled) {
    TY_ASSIGN_OR_RETURN(Executor* const executor, model_.TrainingExecutor(batch.rows));
    profiler_->BeginStep(step, *executor);
  }
  const bool whole_share = async() || batch.rows * workers() == batch.global_rows;
  pusher_->Begin(step, whole_share ? 1.0F : static_cast<float>(batch.rows * workers()) / static_cast<float>(batch.global_rows));
  TY_ASSIGN_OR_RETURN(record.loss, model_.Train({.seed = config_.seed,
                                                 .step = static_cast<uint64_t>(step),
                                                 .worker = static_cast<uint32_t>(options_.identity.trainer_rank()),
                                                 .training = true},
                                                batch, parameters_, gradients_, pusher_.get()));
  pusher_->End();
  record.compute_done = clock_.Now();
  TY_ASSIGN_OR_RETURN(const KvStepResult result, updater_->Wait(parameters_));
  record.end = clock_.Now();
  record.global_step = global_step_ = result.global_step;
  record.staleness = result.staleness;
  if (result.ended) {
    if (async()) ++step_;
    EndHere();
    if (!async()) return absl::OkStatus();  // the step was not applied: it never was
  }
  if (result.refilled > 0) {
    recorder_->OnRestart({.replica = "ps",
                          .reason = fmt::format("{} servers had lost their state and were refilled", result.refilled),
                          .step = result.global_step,
                          .lost_steps = result.lost_steps});
  }
  if (profiled) {
    profiler_->EndStep(record);
    if (step + 1 == config_.profile.steps.end) TY_RETURN_IF_ERROR(WriteProfile());
  }
  return recorder_->OnStep(record);
}

absl::Status Trainer::WriteProfile() {
  if (!profiler_->HasNews()) return absl::OkStatus();
  TY_RETURN_IF_ERROR(profiler_->Write());
  return recorder_->OnNodeTimes(config_.profile.steps, profiler_->MeanNodeNanos());
}

void Trainer::EndHere() {
  ended_ = true;
  end_step_ = step_;
  spdlog::info("the training ends at step {}", step_);
}

absl::Status Trainer::StopIfDue() {
  if (ended_ || !book_->judge().stopped() || step_ >= end_step_) return absl::OkStatus();
  spdlog::info("early stopping: {}", book_->judge().StopReason());
  TY_RETURN_IF_ERROR(updater_->End(step_));
  recorder_->OnStoppedEarly(book_->judge().StopReason());
  EndHere();
  return absl::OkStatus();
}

absl::Status Trainer::EndEpoch(const Batch& batch) {
  if (step_ >= end_step_) return absl::OkStatus();  // the last one is evaluated when the other workers are done, too
  std::map<std::string, double> metrics;
  if (eval_data_ && config_.evaluate.every_epochs > 0 && (batch.epoch + 1) % config_.evaluate.every_epochs == 0) {
    if (config_.evaluator) {
      TY_RETURN_IF_ERROR(SaveCheckpoint());
    } else {
      TY_ASSIGN_OR_RETURN(const Evaluation evaluation, Evaluate(batch.epoch));
      metrics = evaluation.metrics;
      TY_RETURN_IF_ERROR(StopIfDue());
    }
  }
  if (ended_) return absl::OkStatus();
  return recorder_->OnEpoch(batch.epoch, global_step_, metrics, parameters_);
}

absl::StatusOr<std::map<std::string, double>> Trainer::Metrics(const ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const ModelRunner::Evaluation evaluation,
                      model_.Evaluate(*eval_data_, config_.batch_size, parameters, [this] { updater_->ShowActivity(); }));
  return MetricsOf(config_.model, evaluation);
}

absl::StatusOr<Evaluation> Trainer::Evaluate(int64_t epoch) {
  Evaluation evaluation{.step = global_step_, .epoch = epoch, .metrics = {}};
  if (book_->judge().keeps_best()) {
    // In async mode the others go on meanwhile: what is evaluated is what can be kept.
    TY_ASSIGN_OR_RETURN(const KvState state, updater_->State(parameters_));
    evaluation.step = state.step;
    TY_ASSIGN_OR_RETURN(evaluation.metrics, Metrics(state.parameters));
    TY_ASSIGN_OR_RETURN(const EvaluationJudge::Verdict verdict, book_->Add(evaluation));
    if (verdict.best) TY_RETURN_IF_ERROR(Write(state, /*best=*/true).status());
  } else {
    TY_ASSIGN_OR_RETURN(evaluation.metrics, Metrics(parameters_));
    TY_RETURN_IF_ERROR(book_->Add(evaluation).status());
  }
  recorder_->OnEvaluation(evaluation, book_->judge().best());
  evaluation_ = evaluation;
  return evaluation;
}

absl::Status Trainer::FollowEvaluator(bool at_once) {
  if (!config_.evaluator) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const std::vector<Evaluation> fresh, book_->TakeNew(at_once));
  for (const Evaluation& evaluation : fresh) recorder_->OnEvaluation(evaluation, book_->judge().best());
  return StopIfDue();
}

absl::StatusOr<std::string> Trainer::Write(const KvState& state, bool best) {
  std::vector<CheckpointShard> shards = {{.name = "parameters", .tensors = {}}};
  AppendTensors(state.parameters, "", shards[0].tensors);
  if (!slot_names_.empty()) shards.push_back({.name = "optimizer", .tensors = {}});
  for (size_t i = 0; i < slot_names_.size(); ++i) AppendTensors(state.slots[i], slot_names_[i], shards[1].tensors);
  std::map<std::string, std::string> small = best ? book_->judge().BestState() : std::map<std::string, std::string>();
  small[kModelState] = config_.model_json;
  if (const auto& vocabulary = train_data_->info().vocabulary) small[kVocabularyState] = vocabulary->Sha256Hex();
  if (state_ != nullptr) {
    small[kStatePlace] = PlaceAfter(step_);
    shards.push_back({.name = kStateShard, .tensors = {}});
    AppendTensors(*state_, "", shards.back().tensors);
  }
  const CheckpointInfo info{.step = state.step,
                            .position = sampler_->PositionAfter(step_),
                            .seed = config_.seed,
                            .fingerprint = parameters_.Fingerprint(),
                            .model = config_.model.name,
                            .strategy = StrategyText(config_.strategy),
                            .state = std::move(small)};
  updater_->ShowActivity();
  TY_ASSIGN_OR_RETURN(std::string path, best ? checkpoints_->SaveBest(info, shards) : checkpoints_->Save(info, shards));
  updater_->ShowActivity();
  spdlog::info("{} {}", best ? "best checkpoint" : "checkpoint", path);
  return path;
}

absl::Status Trainer::SaveCheckpoint() {
  TY_ASSIGN_OR_RETURN(const KvState state, updater_->State(parameters_));
  if (state.step == checkpointed_step_) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const std::string path, Write(state, /*best=*/false));
  checkpointed_step_ = state.step;
  recorder_->OnCheckpoint(state.step);
  if (!config_.evaluator) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(std::string digest, CheckpointStore::DigestOf(path));
  book_->Expect(state.step, std::move(digest));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Evaluation>> Trainer::RestoreBest(const Evaluation& now) {
  if (!book_->judge().restores_best()) return std::nullopt;
  TY_ASSIGN_OR_RETURN(const std::optional<Checkpoint> best, checkpoints_->LoadBest(parameters_.Fingerprint(), config_.model.name));
  if (!best || best->info().step == now.step) return std::nullopt;
  KvState state = EmptyState();
  TY_RETURN_IF_ERROR(CopyInto(*best, state));
  TY_RETURN_IF_ERROR(best->CopyTo(parameters_));
  state.step = global_step_;  // where a resumed training goes on, from the best parameters
  TY_RETURN_IF_ERROR(Write(state, /*best=*/false).status());
  checkpointed_step_ = state.step;
  recorder_->OnCheckpoint(state.step);
  spdlog::info("restored the best checkpoint, of step {}", best->info().step);
  if (const Evaluation* known = book_->Find(best->info().step)) return *known;
  Evaluation evaluation{.step = best->info().step, .epoch = best->info().position.epoch, .metrics = {}};
  TY_ASSIGN_OR_RETURN(evaluation.metrics, Metrics(parameters_));
  return evaluation;
}

void Trainer::ReportEvaluations(ReplicaReport& report) const {
  const EvaluationJudge& judge = book_->judge();
  if (ended_ && judge.stopped()) report.stopped_early = EarlyStopRecord{.reason = judge.StopReason(), .step = global_step_};
  if (!judge.best()) return;
  report.best = BestRecord{.metric = judge.best_metric(),
                           .value = judge.best()->value,
                           .step = judge.best()->step,
                           .checkpoint = checkpoints_->BestPath(),
                           .restored = judge.restores_best()};
}

absl::Status Trainer::Conclude() {
  ReplicaReport report;
  if (state_ != nullptr && KeepsWorkerState()) TY_RETURN_IF_ERROR(SaveWorkerState(step_, *state_));  // for a run that goes on from here
  if (chief()) {
    TY_RETURN_IF_ERROR(updater_->AwaitOthers(kOthersDeadline, parameters_));
    global_step_ = std::max(global_step_, updater_->global_step());
    const int64_t epoch = end_step_ > 0 ? sampler_->At(end_step_ - 1).epoch : 0;
    if (config_.evaluator) {
      TY_RETURN_IF_ERROR(SaveCheckpoint());  // for the evaluator, while the chief makes sure of its own result
      TY_RETURN_IF_ERROR(FollowEvaluator(/*at_once=*/true));
    }
    Evaluation last;
    std::optional<Evaluation> restored;
    if (eval_data_) {
      if (evaluation_ && evaluation_->step == global_step_) {
        last = *evaluation_;
      } else {
        TY_ASSIGN_OR_RETURN(last, Evaluate(epoch));
      }
      TY_ASSIGN_OR_RETURN(restored, RestoreBest(last));
    }
    TY_RETURN_IF_ERROR(recorder_->OnEpoch(epoch, global_step_, last.metrics, parameters_));
    if (restored) recorder_->OnEvaluation(*restored, book_->judge().best());
    TY_RETURN_IF_ERROR(SaveCheckpoint());
    if (config_.evaluator) TY_RETURN_IF_ERROR(MarkFinished(checkpoints_->dir(), checkpointed_step_));
    report.model = config_.model.name;
    report.strategy = StrategyText(config_.strategy);
    report.batch_size = config_.batch_size;
    report.epochs = epoch + 1;
    report.steps = global_step_;
    report.eval = restored ? restored->metrics : last.metrics;
    report.parameters_sha256 = parameters_.Sha256Hex();
    ReportEvaluations(report);
  }
  updater_->Done();
  return recorder_->Finish(std::move(report), updater_->bytes_sent(), updater_->bytes_received());
}

}  // namespace trainyard::engine
