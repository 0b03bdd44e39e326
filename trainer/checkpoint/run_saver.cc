#include "trainer/checkpoint/run_saver.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "trainer/base/file_error.h"
#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/memory_room.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/same_meaning.h"

namespace trainyard::engine {
namespace {

constexpr int kStopStates = 2;  // a stop writes a worker's state for the last two steps
constexpr absl::Duration kSaveDeadline = absl::Hours(2);
constexpr absl::Duration kToldWait = absl::Seconds(5);  // for the disk, between two checkpoints

std::optional<double> LossStartOf(const CheckpointInfo& info) {
  double start = 0;
  const auto noted = info.state.find(kLossStartState);
  if (noted == info.state.end() || !absl::SimpleAtod(noted->second, &start) || !std::isfinite(start)) return std::nullopt;
  return start;
}

std::string EpochLossOf(const CheckpointInfo& info) {
  const auto noted = info.state.find(kEpochLossState);
  return noted == info.state.end() ? "" : noted->second;
}

}  // namespace

std::string StrategyText(const StrategyConfig& strategy) {
  if (strategy.kind == StrategyConfig::Kind::kLocal) return "local";
  if (strategy.kind == StrategyConfig::Kind::kAllReduce) return fmt::format("allReduce/{}", AlgorithmName(strategy.algorithm));
  std::string text = strategy.mode == StrategyConfig::Mode::kSync ? "parameterServer/sync" : "parameterServer/async";
  if (strategy.compression != Compression::kNone) text += fmt::format(", compression {}", CompressionName(strategy.compression));
  return text;
}

RunSaver::RunSaver(RunSaverOptions options, const TrainingConfig& config, const Sampler& sampler, Clock& clock, Disk& disk)
    : options_(std::move(options)),
      config_(config),
      sampler_(sampler),
      fingerprint_(FingerprintOf(options_.specs)),
      clock_(clock),
      checkpoints_(options_.dir, config.checkpoint.keep, disk),
      last_save_(clock.Now()) {
  for (int device = 0; device < options_.devices; ++device) {
    device_states_.emplace_back(options_.dir, options_.place.worker + device, config.checkpoint.keep + kStopStates);
  }
}

std::string RunSaver::PlaceAfter(int device, int64_t step) const {
  SamplerOptions place = options_.place;
  place.worker += device;
  return StatePlace(place, sampler_.PositionAfter(step));
}

int64_t RunSaver::StateBytes() const { return BytesOf(options_.specs) * static_cast<int64_t>(1 + options_.slot_names.size()); }

absl::StatusOr<TrainingState> RunSaver::EmptyState() const {
  const std::string what = fmt::format("parameters and {} optimizer slots of each", options_.slot_names.size());
  return WithMemoryFor(what, StateBytes(), [&]() -> absl::StatusOr<TrainingState> {
    TrainingState state{.parameters = ParameterSet(options_.specs), .slots = {}, .step = 0};
    for (size_t i = 0; i < options_.slot_names.size(); ++i) state.slots.emplace_back(options_.specs);
    return state;
  });
}

absl::StatusOr<TrainingState> RunSaver::StateOf(const Checkpoint& checkpoint) const {
  TY_ASSIGN_OR_RETURN(TrainingState state, EmptyState());
  TY_RETURN_IF_ERROR(checkpoint.CopyTo(state.parameters));
  for (size_t i = 0; i < options_.slot_names.size(); ++i) {
    const absl::Status copied = checkpoint.CopyTo(state.slots[i], options_.slot_names[i]);
    if (absl::IsNotFound(copied)) {
      return absl::FailedPreconditionError(
          fmt::format("{}: another optimizer than {} wrote it. Use another output folder, or the optimizer of the checkpoint",
                      std::string(copied.message()), config_.optimizer.name));
    }
    TY_RETURN_IF_ERROR(copied);
  }
  state.step = checkpoint.info().step;
  return state;
}

absl::StatusOr<NewestCheckpoint> RunSaver::NewestForAll() const {
  TY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, checkpoints_.Steps());
  NewestCheckpoint newest;
  for (const int64_t step : steps) {
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Read(checkpoints_.PathOf(step));
    if (checkpoint.ok()) TY_RETURN_IF_ERROR(CheckModel(*checkpoint, fingerprint_, config_.model.name));
    std::string reason(checkpoint.status().message());
    const bool zeros = sampler_.At(step).step_in_epoch == 0;
    if (checkpoint.ok() && !zeros && !checkpoint->info().state.contains(kStatePlace)) reason = "it has no state of recurrent layers";
    for (int rank = 0; rank < options_.place.workers && reason.empty() && !zeros; ++rank) {
      const bool own = rank >= options_.place.worker && rank < options_.place.worker + options_.devices;
      const bool has = own || WorkerStateStore(options_.dir, rank, 1).Has(step);
      if (!has) reason = fmt::format("worker {} has not written the state of its recurrent layers", rank / options_.devices);
    }
    if (reason.empty()) {
      newest.checkpoint = *std::move(checkpoint);
      return newest;
    }
    newest.skipped.push_back({.step = step, .path = checkpoints_.PathOf(step), .reason = reason});
  }
  return newest;
}

bool RunSaver::IsOfOtherDevices(const Checkpoint& checkpoint) const {
  const CheckpointInfo& info = checkpoint.info();
  const auto place = info.state.find(kStatePlace);
  return place != info.state.end() && place->second != StatePlace(options_.place, info.position);
}

InputOrigin RunSaver::OriginOf(const CheckpointInfo& info) const {
  if (sampler_.PositionAfter(info.step) == info.position) {
    return {.step = sampler_.start_step(), .epoch = sampler_.start().epoch, .offset = sampler_.start().offset};
  }
  return {.step = info.step, .epoch = info.position.epoch, .offset = info.position.offset};
}

absl::StatusOr<NewestCheckpoint> RunSaver::Newest(Which which, const std::function<bool(int64_t step)>& finished) const {
  TY_ASSIGN_OR_RETURN(NewestCheckpoint newest, checkpoints_.LoadNewest(fingerprint_, config_.model.name));
  if (which == Which::kNewest || !newest.checkpoint || IsOfOtherDevices(*newest.checkpoint)) return newest;
  const bool begins = which == Which::kNewestToBegin;
  if (begins && finished && finished(newest.checkpoint->info().step)) return newest;
  TY_ASSIGN_OR_RETURN(NewestCheckpoint for_all, NewestForAll());
  if (begins && !for_all.checkpoint) return newest;
  for (const SkippedCheckpoint& skipped : for_all.skipped) LogWarning("checkpoint {} is skipped: {}", skipped.path, skipped.reason);
  return for_all;
}

RunSaver::NotedLosses RunSaver::NewestLosses() const {
  const absl::StatusOr<std::optional<CheckpointInfo>> info = checkpoints_.NewestInfo();
  if (!info.ok() || !*info) return {};
  return {.start = LossStartOf(**info), .of_epoch = EpochLossOf(**info)};
}

absl::StatusOr<RunSaver::Loaded> RunSaver::Load(Which which, const std::function<bool(int64_t step)>& finished) {
  TY_RETURN_IF_ERROR(Settle());  // the newest one may be under way
  resumed_.reset();
  checkpointed_step_ = -1;
  TY_ASSIGN_OR_RETURN(NewestCheckpoint newest, Newest(which, finished));
  Loaded loaded{.state = std::nullopt, .skipped = std::move(newest.skipped)};
  if (!newest.checkpoint) return loaded;
  if (!options_.description.empty()) TY_RETURN_IF_ERROR(CheckSameMeaning(*newest.checkpoint, options_.description));
  TY_ASSIGN_OR_RETURN(loaded.state, StateOf(*newest.checkpoint));
  loaded.state->origin = OriginOf(newest.checkpoint->info());
  LogInfo("going on from {} (step {})", newest.checkpoint->path(), loaded.state->step);
  checkpointed_step_ = loaded.state->step;
  const std::map<std::string, std::string>& stored = newest.checkpoint->info().state;
  if (const auto scale = stored.find(kLossScaleState); scale != stored.end()) loaded.loss_scale = scale->second;
  loaded.loss_start = LossStartOf(newest.checkpoint->info());
  loaded.epoch_loss = EpochLossOf(newest.checkpoint->info());
  if (newest.checkpoint->info().state.contains(kStatePlace)) resumed_ = std::move(newest.checkpoint);
  return loaded;
}

bool RunSaver::DueByTime() const {
  const int64_t seconds = config_.checkpoint.every_seconds;
  return seconds > 0 && thread_.idle() && clock_.Now() - last_save_ >= absl::Seconds(seconds);
}

bool RunSaver::HasRoom() const { return StateBytes() + StateBytes() / 4 < ReadMemoryRoom().available; }

absl::Status RunSaver::Spare(const absl::Status& status, int64_t step) {
  const bool removed = absl::IsNotFound(status);  // its folder, while it was written
  if (!MayPass(status) && !removed) return status;
  unwritten_ = fmt::format("the checkpoint of step {} is not written: {}. The training goes on, and the next checkpoint tries again; {}",
                           step, std::string(status.message()), removed ? "let nothing else remove files there" : NextStepFor(status));
  LogError("{}", unwritten_);
  return absl::OkStatus();
}

absl::Status RunSaver::TakeOutcome() {
  const std::optional<absl::Status> outcome = thread_.Take();
  if (!outcome) return absl::OkStatus();
  last_save_ = clock_.Now();
  const UnderWay saved = *std::exchange(under_way_, std::nullopt);
  if (saved.best) {
    best_status_ = *outcome;
    return Spare(*outcome, saved.step);
  }
  if (!outcome->ok()) checkpointed_step_ = checkpointed_before_;
  TY_RETURN_IF_ERROR(Spare(*outcome, saved.step));
  if (!outcome->ok()) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(std::string digest, CheckpointStore::DigestOf(checkpoints_.PathOf(saved.step)));
  finished_.push_back({.step = saved.step, .digest = std::move(digest)});
  return absl::OkStatus();
}

absl::Status RunSaver::AwaitLast(std::string_view next) {
  const absl::Time start = clock_.Now();
  TY_RETURN_IF_ERROR(thread_.AwaitIdle(kSaveDeadline));
  if (const absl::Duration waited = clock_.Now() - start; waited >= kToldWait && !next.empty()) {
    LogWarning("{} waited {} for the checkpoint before it: the disk needs longer than checkpoint.everySteps; make it larger", next,
               absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1))));
  }
  return TakeOutcome();
}

absl::StatusOr<std::vector<RunSaver::Saved>> RunSaver::Finished() {
  if (thread_.idle()) TY_RETURN_IF_ERROR(TakeOutcome());
  return std::exchange(finished_, {});
}

absl::Status RunSaver::Begin(TrainingState state, const RunPlace& place, std::map<std::string, std::string> judged, bool best) {
  TY_RETURN_IF_ERROR(AwaitLast(fmt::format("the {}checkpoint of step {}", best ? "best " : "", state.step)));
  under_way_ = {.step = state.step, .best = best};
  struct Snapshot {
    TrainingState state;
    std::vector<ParameterSet> carried;
    CheckpointInfo info;
  };
  auto snapshot = std::make_shared<Snapshot>();  // shared: a std::function must be able to be copied
  snapshot->info = InfoOf(state.step, place, std::move(judged));
  snapshot->state = std::move(state);
  for (const ParameterSet* const carried : place.carried) snapshot->carried.push_back(CopyOf(*carried));
  thread_.Start([this, snapshot = std::move(snapshot), best] {
    std::vector<const ParameterSet*> carried;
    for (const ParameterSet& of_device : snapshot->carried) carried.push_back(&of_device);
    return Write(StateView(snapshot->state), carried, snapshot->info, best);
  });
  return absl::OkStatus();
}

absl::Status RunSaver::SaveMeanwhile(TrainingState state, const RunPlace& place) {
  const int64_t step = state.step;
  TY_RETURN_IF_ERROR(Begin(std::move(state), place, {}, /*best=*/false));
  checkpointed_before_ = std::exchange(checkpointed_step_, step);
  return absl::OkStatus();
}

absl::Status RunSaver::SaveBestMeanwhile(TrainingState state, const RunPlace& place, std::map<std::string, std::string> judged) {
  return Begin(std::move(state), place, std::move(judged), /*best=*/true);
}

absl::Status RunSaver::Save(const StateView& state, const RunPlace& place) {
  TY_RETURN_IF_ERROR(AwaitLast(fmt::format("the checkpoint of step {}", state.step)));
  TY_RETURN_IF_ERROR(Write(state, place.carried, InfoOf(state.step, place, {}), /*best=*/false));
  checkpointed_step_ = state.step;
  last_save_ = clock_.Now();
  TY_ASSIGN_OR_RETURN(std::string digest, CheckpointStore::DigestOf(checkpoints_.PathOf(state.step)));
  finished_.push_back({.step = state.step, .digest = std::move(digest)});
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Checkpoint>> RunSaver::LoadBest() {
  TY_RETURN_IF_ERROR(Settle());
  TY_RETURN_IF_ERROR(best_status_);
  return checkpoints_.LoadBest(fingerprint_, config_.model.name);
}

absl::Status RunSaver::RestoreCarried(int device, int64_t step, ParameterSet& carried) {
  if (!options_.chief) return device_states_[device].Load(step, PlaceAfter(device, step), carried);
  if (!resumed_) {
    // A chief that is started anew finds its servers filled by the one before it: the checkpoint of
    // this step is of the same training.
    absl::StatusOr<Checkpoint> same_step = Checkpoint::Read(checkpoints_.PathOf(step));
    if (!same_step.ok() || !same_step->info().state.contains(kStatePlace)) {
      return absl::NotFoundError("parameters are those of running servers, or of a checkpoint without state");
    }
    TY_RETURN_IF_ERROR(CheckModel(*same_step, fingerprint_, config_.model.name));
    resumed_ = *std::move(same_step);
  }
  const std::string& place = resumed_->info().state.at(kStatePlace);
  if (place != PlaceAfter(/*device=*/0, step)) {
    return absl::FailedPreconditionError(
        fmt::format("checkpoint {} is of {}, expected {}", resumed_->path(), place, PlaceAfter(/*device=*/0, step)));
  }
  return resumed_->CopyTo(carried, StateSlot(device));
}

CheckpointInfo RunSaver::InfoOf(int64_t state_step, const RunPlace& place, std::map<std::string, std::string> judged) const {
  if (!options_.vocabulary_sha256.empty()) judged[kVocabularyState] = options_.vocabulary_sha256;
  if (!place.loss_scale.empty()) judged[kLossScaleState] = place.loss_scale;
  if (place.loss_start) judged[kLossStartState] = fmt::format("{}", *place.loss_start);
  if (!place.epoch_loss.empty()) judged[kEpochLossState] = place.epoch_loss;
  if (!place.carried.empty()) judged[kStatePlace] = PlaceAfter(/*device=*/0, place.step);
  return {.step = state_step,
          .position = sampler_.PositionAfter(place.step),
          .seed = config_.seed,
          .fingerprint = fingerprint_,
          .model = config_.model.name,
          .strategy = StrategyText(config_.strategy),
          .state = std::move(judged),
          .description = options_.description};
}

absl::Status RunSaver::Write(const StateView& state, std::span<const ParameterSet* const> carried, const CheckpointInfo& info, bool best) {
  std::vector<CheckpointShard> shards = {{.name = "parameters", .tensors = {}}};
  AppendTensors(state.parameters, "", shards[0].tensors);
  if (!options_.slot_names.empty()) shards.push_back({.name = "optimizer", .tensors = {}});
  for (size_t i = 0; i < options_.slot_names.size(); ++i) AppendTensors(state.slots[i], options_.slot_names[i], shards[1].tensors);
  if (!carried.empty()) shards.push_back({.name = kStateShard, .tensors = {}});
  for (size_t device = 0; device < carried.size(); ++device) {
    AppendTensors(*carried[device], StateSlot(static_cast<int>(device)), shards.back().tensors);
  }
  TY_ASSIGN_OR_RETURN(const std::string path, best ? checkpoints_.SaveBest(info, shards) : checkpoints_.Save(info, shards));
  LogInfo("{} {}", best ? "best checkpoint" : "checkpoint", path);
  return absl::OkStatus();
}

}  // namespace trainyard::engine
