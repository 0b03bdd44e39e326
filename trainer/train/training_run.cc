#include "trainer/train/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/model_description.h"
#include "trainer/checkpoint/vocabulary_file.h"
#include "trainer/data/open/csv_fit.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/job/check_devices.h"
#include "trainer/job/job_transport.h"
#include "trainer/job/output_folders.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/part_names.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/train/allreduce_updater.h"
#include "trainer/train/device_updater.h"
#include "trainer/train/equal_batches.h"
#include "trainer/train/kvstore_updater.h"
#include "trainer/train/local_updater.h"
#include "trainer/train/make_input.h"
#include "trainer/train/settings_of_job.h"
#include "trainer/train/skipped_records.h"

namespace trainyard::engine {
namespace {

// Often enough to be heard several times within the longest silence.
absl::Duration HeartbeatPeriod(const TimeoutsConfig& timeouts) { return std::min(absl::Seconds(2), timeouts.silence / 5); }

SpeedUnit UnitOf(const DatasetInfo& data) {
  if (data.stream_steps == 0) return {.name = data.example_shape.rank() == 3 ? "images" : "examples"};
  return {.name = data.vocabulary->kind() == TokenKind::kWords ? "words" : "characters", .per_example = data.stream_steps};
}

int64_t PlannedEnd(const TrainingConfig& config, const Sampler& sampler) {
  return config.epochs > 0 ? sampler.StepsUntilEpoch(config.epochs) : config.steps;
}

// Of a training whose input goes on there.
int64_t EndFrom(const TrainingRun& run, const InputOrigin& where) {
  return PlannedEnd(run.config, run.sampler->GoingOn(where.step, {.epoch = where.epoch, .offset = where.offset}));
}

absl::Status OpenData(TrainingRun& run) {
  const TrainingConfig& config = run.config;
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  TY_ASSIGN_OR_RETURN(run.train_data, OpenDataset(config.data, Split::kTrain, expected, config.seed));
  if (run.chief() && config.data.eval) {
    TY_ASSIGN_OR_RETURN(run.eval_data, OpenDataset(config.data, Split::kEval, expected, config.seed));
  }
  TY_ASSIGN_OR_RETURN(Sampler sampler, MakeSampler(run.train_data->info(), config, run.all_devices(), run.rank() * config.devices));
  run.sampler = std::make_unique<Sampler>(std::move(sampler));
  run.planned_end = run.end_step = PlannedEnd(config, *run.sampler);
  return absl::OkStatus();
}

// Gradients to which no other worker adds need not leave the devices. One device of a rank of an
// all-reduce keeps what the optimizer changes.
absl::Status KeepOnDevices(TrainingRun& run, const std::vector<ParameterSpec>& specs, const WorkerBackends& backends) {
  const DeviceTrainingOptions options{
      .specs = specs, .optimizer = run.config.optimizer, .skips_not_finite = run.config.on_non_finite == OnNonFinite::kSkip};
  if (run.config.strategy.kind == StrategyConfig::Kind::kLocal) {
    TY_ASSIGN_OR_RETURN(run.on_devices, OpenDeviceGroup(backends.devices, options));
  } else if (run.all_reduce() && !run.config.strategy.shard_optimizer && run.config.devices == 1) {
    TY_ASSIGN_OR_RETURN(run.device_optimizer, backends.devices[0]->MakeDeviceOptimizer(options));
    if (run.device_optimizer != nullptr) run.device_kind = backends.devices[0]->kernels();
  }
  return absl::OkStatus();
}

absl::Status MakeDevices(TrainingRun& run, const std::vector<ParameterSpec>& specs, const WorkerBackends& backends) {
  TY_CHECK(backends.devices.size() == static_cast<size_t>(run.config.devices));
  TY_RETURN_IF_ERROR(KeepOnDevices(run, specs, backends));
  for (Backend* const backend : backends.devices) {
    const int device = static_cast<int>(run.devices.size());
    const int rank = run.rank() * run.config.devices + device;
    const ExecutorOptions executors{.parameters = run.device_optimizer.get(),
                                    .training = run.on_devices != nullptr ? &run.on_devices->at(device) : nullptr};
    TY_ASSIGN_OR_RETURN(Sampler sampler, MakeSampler(run.train_data->info(), run.config, run.all_devices(), rank));
    run.devices.push_back(
        std::make_unique<Device>(rank, run.config.model, *backend, specs, std::move(sampler), run.lendable.get(), executors));
  }
  return absl::OkStatus();
}

// The model as all parts see it.
struct Model {
  std::vector<ParameterSpec> specs;
  std::vector<std::string> slot_names;
  const Vocabulary* vocabulary;  // null: the model takes no tokens
};

absl::Status MakeSaver(TrainingRun& run, const Model& model) {
  const DatasetInfo& data = run.train_data->info();
  const std::string vocabulary = model.vocabulary != nullptr ? model.vocabulary->Sha256Hex() : "";
  std::string description;
  if (run.chief()) {
    TY_ASSIGN_OR_RETURN(const ModelDescription described, DescribeModel(run.config, vocabulary));
    TY_ASSIGN_OR_RETURN(description, DescriptionJson(described));
  }
  run.saver = std::make_unique<RunSaver>(RunSaverOptions{.dir = CheckpointFolder(run.options.output, run.config),
                                                         .specs = model.specs,
                                                         .slot_names = model.slot_names,
                                                         .place = {.examples = data.examples,
                                                                   .stream_steps = data.stream_steps,
                                                                   .batch_size = run.config.batch_size,
                                                                   .workers = run.all_devices(),
                                                                   .worker = run.rank() * run.config.devices},
                                                         .devices = run.config.devices,
                                                         .chief = run.chief(),
                                                         .vocabulary_sha256 = vocabulary,
                                                         .description = std::move(description)},
                                         run.config, *run.sampler, run.clock);
  if (model.vocabulary == nullptr || !run.chief()) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, run.saver->checkpoints().Steps());
  return KeepVocabulary(run.saver->checkpoints().dir(), *model.vocabulary, !steps.empty());
}

// All that ranks must have alike beside the parameters, in words.
GroupAgreement AgreementOf(const TrainingRun& run, const Model& model) {
  const TrainingConfig& config = run.config;
  GroupAgreement agreement = {{"the number of ranks", fmt::format("{}", run.workers())}, {"the strategy", StrategyText(config.strategy)}};
  for (const auto& [name, value] : SettingsOf(config)) agreement.emplace_back("spec.training." + name, value);
  agreement.emplace_back("the vocabulary", model.vocabulary != nullptr ? model.vocabulary->Summary() : "");
  for (const std::string& tensor : MakeAgreement(model.specs).tensors) agreement.emplace_back("a tensor", tensor);
  return agreement;
}

absl::Status CheckStatefulBatches(const TrainingRun& run) {
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildTrainingGraph(run.config.model, /*batch=*/1));
  if (graph.states().empty()) return absl::OkStatus();
  TY_RETURN_IF_ERROR(CheckEqualBatches(*run.sampler, run.planned_end, "spec.training.data.train"));
  if (run.eval_data == nullptr) return absl::OkStatus();
  TY_ASSIGN_OR_RETURN(const Sampler evaluation, ModelRunner::EvaluationSampler(run.eval_data->info(), run.config.batch_size));
  return CheckEqualBatches(evaluation, evaluation.StepsPerEpoch(), "spec.training.data.eval");
}

// The keys for which a step leaves a gradient or a next value: the same with every batch.
absl::StatusOr<std::vector<int>> KeysOfStep(TrainingRun& run) {
  TY_ASSIGN_OR_RETURN(const Executor* const executor, run.devices[0]->model.TrainingExecutor(run.config.batch_size));
  std::vector<int> keys;
  for (const ParameterResult& result : executor->graph().results()) keys.push_back(result.key);
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  return keys;
}

// Of `keys` those whose gradients travel by rows.
absl::StatusOr<std::vector<int>> RowKeysOf(TrainingRun& run, const Model& model) {
  TY_ASSIGN_OR_RETURN(const Executor* const executor, run.devices[0]->model.TrainingExecutor(run.config.batch_size));
  std::vector<int> keys = executor->row_keys();
  std::erase_if(keys, [&](int key) { return !RowSums::PaysFor(model.specs[key]); });
  return keys;
}

// Whether there is nothing left to train behind `step`.
absl::StatusOr<bool> IsFinished(const TrainingRun& run, int64_t step) {
  if (step >= run.planned_end) return true;
  if (!run.config.evaluate.early_stopping) return false;
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<EvaluationBook> book,
                      EvaluationBook::Open(run.config, run.saver->checkpoints().dir(), step, run.clock));
  return book->judge().stopped();
}

WaitTold WaitShownBy(TrainingRun& run) {
  return [&run](const std::string& waiting) {
    if (run.recorder != nullptr) run.recorder->OnWait(waiting);
  };
}

absl::StatusOr<std::unique_ptr<Updater>> MakeAllReduceUpdater(TrainingRun& run, const Model& model) {
  const TrainingConfig& config = run.config;
  const ReplicaIdentity& identity = run.options.identity;
  TY_ASSIGN_OR_RETURN(std::vector<int> keys, KeysOfStep(run));
  TY_ASSIGN_OR_RETURN(std::vector<int> row_keys, RowKeysOf(run, model));
  std::vector<std::string> hosts = identity.worker_hosts;
  if (hosts.empty()) hosts.emplace_back();  // one rank alone
  const std::string& own = hosts[run.rank()];
  const std::string listen = own.empty() ? "" : identity.listen_host() + own.substr(own.rfind(':'));
  AllReduceUpdaterOptions options{.group = {.hosts = std::move(hosts),
                                            .listen = listen,
                                            .rank = run.rank(),
                                            .node = identity.node,
                                            .device_kind = run.device_kind,
                                            .algorithm = config.strategy.algorithm,
                                            .agreement = AgreementOf(run, model),
                                            .timeouts = config.timeouts,
                                            .heartbeat_period = HeartbeatPeriod(config.timeouts),
                                            .stopping = [&run] { return run.stop(); },
                                            .on_wait = WaitShownBy(run),
                                            .profile = &run.profiler->log()},
                                  .optimizer = config.optimizer,
                                  .threads = run.threads,
                                  .device = run.device_optimizer.get(),
                                  .devices = config.devices,
                                  .shard_optimizer = config.strategy.shard_optimizer,
                                  .specs = model.specs,
                                  .lendable = run.lendable,
                                  .keys = std::move(keys),
                                  .row_keys = std::move(row_keys),
                                  .end_step = [&run](const InputOrigin& where) { return EndFrom(run, where); },
                                  .load = [&run](bool again) { return LoadState(run, again); },
                                  .empty_state = [&run] { return run.saver->EmptyState(); },
                                  .finished = [&run](int64_t step) { return IsFinished(run, step); },
                                  .carries_state = [&run]() -> absl::StatusOr<bool> {
                                    TY_ASSIGN_OR_RETURN(const ParameterSet* const carried,
                                                        run.devices[0]->model.TrainingState(run.config.batch_size));
                                    return carried != nullptr;
                                  },
                                  .on_algorithms = [&run](const AllReduceRecord& record) { run.all_reduce_record = record; }};
  TY_ASSIGN_OR_RETURN(std::unique_ptr<AllReduceUpdater> updater,
                      AllReduceUpdater::Create(std::move(options), MakeJobTransport(identity, config, run.lendable)));
  run.profiler->NameTensors(updater->bucket_names());
  return updater;
}

absl::StatusOr<std::unique_ptr<Updater>> MakeUpdater(TrainingRun& run, const Model& model) {
  const TrainingConfig& config = run.config;
  const auto load = [&run](bool again) { return LoadState(run, again); };
  if (config.strategy.kind == StrategyConfig::Kind::kLocal) {
    if (run.on_devices != nullptr) return std::make_unique<DeviceUpdater>(*run.on_devices, [load] { return load(/*again=*/false); });
    return LocalUpdater::Create(config.optimizer, run.threads, [load] { return load(/*again=*/false); });
  }
  if (run.all_reduce()) return MakeAllReduceUpdater(run, model);
  return KvstoreUpdater::Create({.servers = run.options.identity.ps_hosts,
                                 .worker = run.rank(),
                                 .workers = run.workers(),
                                 .devices = config.devices,
                                 .chief = run.chief(),
                                 .mode = run.async() ? KvMode::kAsync : KvMode::kSync,
                                 .compression = config.strategy.compression,
                                 .specs = model.specs,
                                 .slot_names = model.slot_names,
                                 .settings = SettingsOf(config),
                                 .end_step = run.planned_end,
                                 .vocabulary = model.vocabulary != nullptr ? model.vocabulary->Summary() : "",
                                 .timeouts = config.timeouts,
                                 .heartbeat_period = HeartbeatPeriod(config.timeouts),
                                 .load = load,
                                 .stopping = [&run] { return run.stop(); },
                                 .on_wait = WaitShownBy(run),
                                 .profile = &run.profiler->log()},
                                MakeJobTransport(run.options.identity, config, run.lendable));
}

absl::StatusOr<std::unique_ptr<Recorder>> MakeRecorder(TrainingRun& run) {
  const ReplicaIdentity& identity = run.options.identity;
  const TrainingConfig& config = run.config;
  return Recorder::Create({.role = std::string(RoleName(identity.role)),
                           .index = identity.index,
                           .chief = run.chief(),
                           .output = run.options.output,
                           .summary_dir = SummaryFolder(run.options.output, config),
                           .summary_every = config.summary.every_steps,
                           .batch_size = config.batch_size * (run.async() ? config.devices : run.all_devices()),
                           .unit = UnitOf(run.train_data->info()),
                           .perplexity = run.train_data->info().stream_steps > 0,
                           .listen_host = identity.listen_host(),
                           .http_port = run.options.http_port,
                           .gpus = run.gpus},
                          run.clock);
}

}  // namespace

std::string TrainingRun::Name() const { return fmt::format("{}-{}", RoleName(options.identity.role), options.identity.index); }

bool TrainingRun::async() const {
  return config.strategy.kind == StrategyConfig::Kind::kParameterServer && config.strategy.mode == StrategyConfig::Mode::kAsync;
}

bool TrainingRun::sync() const {
  const bool servers = config.strategy.kind == StrategyConfig::Kind::kParameterServer;
  return all_reduce() || (servers && config.strategy.mode == StrategyConfig::Mode::kSync);
}

int64_t TrainingRun::JobSteps(int64_t worker_steps) const {
  if (!async()) return worker_steps;
  const int64_t planned = updater->planned_steps();
  return planned >= 0 ? planned : worker_steps * workers();
}

void TrainingRun::GoOnFrom(const InputOrigin& where) {
  if (async() || where == origin) return;
  origin = where;
  const SamplerPosition position{.epoch = where.epoch, .offset = where.offset};
  *sampler = sampler->GoingOn(where.step, position);
  for (const std::unique_ptr<Device>& device : devices) device->sampler = device->sampler.GoingOn(where.step, position);
  planned_end = PlannedEnd(config, *sampler);
  if (where.step > 0) {
    LogInfo("step {} begins at example {} of epoch {}: other workers or batches read those before it", where.step, where.offset,
            where.epoch);
  }
}

void TrainingRun::EndHere() {
  ended = true;
  end_step = step;
  LogInfo("the training ends at step {}", step);
}

absl::StatusOr<std::unique_ptr<TrainingRun>> AssembleRun(TrainerOptions options, const WorkerBackends& backends, Clock& clock) {
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(options.config.model));
  TY_RETURN_IF_ERROR(WithContext(KnowCsvFit(options.config.data, expected.classes > 0), "spec.training.data.train"));
  auto run = std::make_unique<TrainingRun>(std::move(options), backends, clock);
  TY_RETURN_IF_ERROR(CheckDevices(run->config, run->workers()));
  TY_RETURN_IF_ERROR(OpenData(*run));
  Model model;
  TY_ASSIGN_OR_RETURN(model.specs, ParameterSpecsOf(run->config.model));
  TY_RETURN_IF_ERROR(WithMemoryFor("parameters and gradients", (1 + run->config.devices) * BytesOf(model.specs), [&] {
    run->parameters = ParameterSet(model.specs);
    if (run->config.strategy.kind != StrategyConfig::Kind::kLocal) run->lendable = MakeJobMemory(run->options.identity, run->config);
    return MakeDevices(*run, model.specs, backends);
  }));
  TY_RETURN_IF_ERROR(CheckStatefulBatches(*run));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(run->config.optimizer));
  model.slot_names = optimizer->slot_names();
  model.vocabulary = run->train_data->info().vocabulary.get();
  TY_RETURN_IF_ERROR(MakeSaver(*run, model));
  const ReplicaIdentity& identity = run->options.identity;
  run->profiler = std::make_unique<Profiler>(ProfilerOptions{.role = std::string(RoleName(identity.role)),
                                                             .index = identity.index,
                                                             .rank = run->rank(),
                                                             .steps = run->config.profile.steps,
                                                             .output = run->options.output},
                                             clock);
  run->profiler->NameTensors(PartNames(model.specs, static_cast<int>(identity.ps_hosts.size())));
  TY_ASSIGN_OR_RETURN(run->updater, MakeUpdater(*run, model));
  run->ticker = std::make_unique<ActivityTicker>([updater = run->updater.get()] { updater->ShowActivity(); });
  TY_ASSIGN_OR_RETURN(run->recorder, MakeRecorder(*run));
  return run;
}

absl::StatusOr<TrainingState> LoadState(TrainingRun& run, bool again) {
  const ActivityTicker::Work work(*run.ticker);
  bool stateful = false;
  if (run.sync() && run.workers() > 1) {
    TY_ASSIGN_OR_RETURN(const ParameterSet* const carried, run.devices[0]->model.TrainingState(run.config.batch_size));
    stateful = carried != nullptr;
  }
  using Which = RunSaver::Which;
  const Which which = !stateful ? Which::kNewest : again ? Which::kNewestForAll : Which::kNewestToBegin;
  const auto finished = [&run](int64_t step) { return IsFinished(run, step).value_or(false); };
  TY_ASSIGN_OR_RETURN(RunSaver::Loaded loaded, run.saver->Load(which, finished));
  if (run.loss_scale) run.loss_scale.emplace(run.options.loss_scale);
  if (run.loss_scale && !loaded.loss_scale.empty()) {
    TY_RETURN_IF_ERROR(WithContext(run.loss_scale->Restore(loaded.loss_scale), fmt::format("checkpoint of step {}", loaded.state->step)));
  }
  run.recorder->OnSkippedCheckpoints(SkippedRecords(loaded.skipped, loaded.state ? loaded.state->step : 0));
  if (loaded.loss_start) run.recorder->OnLossStart(*loaded.loss_start);
  run.recorder->OnEpochLoss(loaded.epoch_loss);
  if (loaded.state) {
    run.GoOnFrom(loaded.state->origin);
    return *std::move(loaded.state);
  }
  run.GoOnFrom({});
  LogInfo("no checkpoint in '{}': takes the start values", run.saver->checkpoints().dir());
  TY_ASSIGN_OR_RETURN(TrainingState state, run.saver->EmptyState());
  InitializeParameters(run.config.model, run.config.seed, state.parameters);
  if (!run.config.init_from.empty()) TY_RETURN_IF_ERROR(InitFrom(run.config.init_from, state.parameters));
  return state;
}

}  // namespace trainyard::engine
