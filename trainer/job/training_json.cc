#include "trainer/job/training_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string>
#include <vector>

#include "trainer/config/field_reader.h"
#include "trainer/job/data_json.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/metrics.h"
#include "trainer/model/model_json.h"
#include "trainer/optim/make_optimizer.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr Integers kSteps{.min = 1, .max = int64_t{1} << 40};
constexpr int64_t kMostDevices = 256;
constexpr int64_t kMostProfiledSteps = 1000;
constexpr int64_t kMostSeconds = 10 * 365 * 86400;
constexpr Integers kStepsOrNone{.min = 0, .max = kSteps.max};

LrScheduleConfig ReadSchedule(const json& value, std::string path, FieldErrors& errors) {
  using Kind = LrScheduleConfig::Kind;
  LrScheduleConfig schedule;
  FieldReader fields(value, std::move(path), errors);
  schedule.kind = fields.Choice<Kind>(
      "name", {{"constant", Kind::kConstant}, {"step", Kind::kStep}, {"exponential", Kind::kExponential}, {"cosine", Kind::kCosine}});
  if (schedule.kind != Kind::kConstant) schedule.decay_steps = fields.Integer("decaySteps", kSteps);
  if (schedule.kind == Kind::kStep || schedule.kind == Kind::kExponential) {
    schedule.decay_rate = fields.Number("decayRate", {.min = 0, .max = 1e6, .above = true});
  }
  if (schedule.kind == Kind::kCosine) schedule.minimum = fields.Number("minimum", {.min = 0, .max = 1e6}, 0.0);
  if (schedule.kind != Kind::kConstant) schedule.hold_steps = fields.Integer("holdSteps", kStepsOrNone, 0);
  schedule.warmup_steps = fields.Integer("warmupSteps", kStepsOrNone, 0);
  fields.RefuseOthers();
  return schedule;
}

OptimizerConfig ReadOptimizer(const json& value, std::string path, FieldErrors& errors) {
  constexpr Numbers kShare{.min = 0, .max = 1, .below = true};
  FieldReader fields(value, std::move(path), errors);
  const std::string name = fields.Text("name", "sgd");
  const auto names = OptimizerNames();
  const bool known = std::ranges::find(names, name) != names.end();
  if (!known) fields.WrongWord("name", json(name), {names.begin(), names.end()});
  OptimizerConfig optimizer = DefaultOptimizerConfig(known ? name : "sgd");
  // Of an optimizer that is not known all fields are checked that any one has.
  const auto is = [&](std::initializer_list<std::string_view> readers) {
    return !known || std::ranges::find(readers, name) != readers.end();
  };
  optimizer.learning_rate = fields.Number("learningRate", {.min = 0, .max = 1e6, .above = true}, optimizer.learning_rate);
  if (is({"momentum", "nesterov", "rmsprop"})) optimizer.momentum = fields.Number("momentum", kShare, optimizer.momentum);
  if (is({"sgd"})) {
    // As Keras' SGD: with a momentum, and perhaps Nesterov's, it is one of the two optimizers that
    // are named after them.
    optimizer.momentum = fields.Number("momentum", kShare, 0.0);
    const bool nesterov = fields.Bool("nesterov", false);
    if (optimizer.momentum > 0) optimizer.name = nesterov ? "nesterov" : "momentum";
  }
  if (is({"adadelta", "rmsprop"})) optimizer.rho = fields.Number("rho", kShare, optimizer.rho);
  if (is({"adam", "adamw"})) {
    optimizer.beta1 = fields.Number("beta1", kShare, optimizer.beta1);
    optimizer.beta2 = fields.Number("beta2", kShare, optimizer.beta2);
  }
  if (is({"adagrad", "adadelta", "rmsprop", "adam", "adamw"})) {
    optimizer.epsilon = fields.Number("epsilon", {.min = 0, .max = 1, .above = true}, optimizer.epsilon);
  }
  if (is({"adagrad"}))
    optimizer.initial_accumulator = fields.Number("initialAccumulator", {.min = 0, .max = 1e6}, optimizer.initial_accumulator);
  optimizer.weight_decay = fields.Number("weightDecay", {.min = 0, .max = 1e6}, optimizer.weight_decay);
  if (const json* schedule = fields.Get("schedule")) optimizer.schedule = ReadSchedule(*schedule, fields.PathOf("schedule"), errors);
  if (optimizer.schedule.kind == LrScheduleConfig::Kind::kCosine && optimizer.schedule.minimum > optimizer.learning_rate) {
    errors.Add(fields.PathOf("schedule") + ".minimum",
               fmt::format("found {}, expected at most the learningRate, {}", optimizer.schedule.minimum, optimizer.learning_rate));
  }
  optimizer.clip_norm = fields.Number("clipNorm", {.min = 0}, 0.0);
  fields.RefuseOthers();
  return optimizer;
}

AllReduceAlgorithm ReadAlgorithm(FieldReader& fields) {
  using enum AllReduceAlgorithm;
  AllReduceAlgorithm algorithm = kAuto;
  const json* value = fields.Get("algorithm");
  if (value != nullptr && *value == "ring") {
    // docs/collectives.md
    fields.Error(
        "algorithm",
        "found \"ring\", expected auto, direct, halvingDoubling or hierarchical, because a ring adds each part of a gradient in another "
        "order; direct moves as few bytes");
  } else {
    algorithm = fields.Choice<AllReduceAlgorithm>(
        "algorithm", {{"auto", kAuto}, {"direct", kDirect}, {"halvingDoubling", kHalvingDoubling}, {"hierarchical", kHierarchical}}, kAuto);
  }
  return algorithm;
}

Compression ReadCompression(FieldReader& fields) {
  return fields.Choice<Compression>(
      "compression",
      {{CompressionName(Compression::kNone), Compression::kNone}, {CompressionName(Compression::kBfloat16), Compression::kBfloat16}},
      Compression::kNone);
}

// The sums of an all-reduce go from rank to rank, and would be rounded again on each way.
void RefuseCompression(FieldReader& fields) {
  const json* value = fields.Get("compression");
  if (value == nullptr || *value != CompressionName(Compression::kBfloat16)) {
    fields.Choice<Compression>("compression", {{CompressionName(Compression::kNone), Compression::kNone}}, Compression::kNone);
    return;
  }
  fields.Error("compression",
               fmt::format("found {}, expected none, because the workers of an all-reduce send each other float32; leave the "
                           "field out, or set strategy: {{parameterServer: {{mode: sync, compression: bfloat16}}}}",
                           Found(*value)));
}

StrategyConfig ReadStrategy(const json& value, std::string path, FieldErrors& errors) {
  StrategyConfig strategy;
  FieldReader fields(value, path, errors);
  const json* local = fields.Get("local");
  const json* servers = fields.Get("parameterServer");
  const json* all_reduce = fields.Get("allReduce");
  const size_t errors_before = errors.size();
  fields.RefuseOthers();
  if (value.is_object() && errors.size() == errors_before && (local != nullptr) + (servers != nullptr) + (all_reduce != nullptr) != 1) {
    errors.Add(path, "expected exactly one of local: {}, parameterServer: {mode: sync} and allReduce: {}");
    return strategy;
  }
  if (local != nullptr) FieldReader(*local, fields.PathOf("local"), errors).RefuseOthers();
  if (all_reduce != nullptr) {
    strategy.kind = StrategyConfig::Kind::kAllReduce;
    FieldReader options(*all_reduce, fields.PathOf("allReduce"), errors);
    strategy.algorithm = ReadAlgorithm(options);
    strategy.shard_optimizer = options.Bool("shardOptimizer", false);
    RefuseCompression(options);
    options.RefuseOthers();
  }
  if (servers == nullptr) return strategy;
  strategy.kind = StrategyConfig::Kind::kParameterServer;
  FieldReader options(*servers, fields.PathOf("parameterServer"), errors);
  strategy.mode =
      options.Choice<StrategyConfig::Mode>("mode", {{"sync", StrategyConfig::Mode::kSync}, {"async", StrategyConfig::Mode::kAsync}});
  strategy.stale_gradients = options.Choice<StalenessRule>(
      "staleGradients", {{"adapt", StalenessRule::kAdapt}, {"plain", StalenessRule::kPlain}}, strategy.stale_gradients);
  strategy.compression = ReadCompression(options);
  options.RefuseOthers();
  return strategy;
}

MetricRule ReadMetricRule(FieldReader& fields, const std::string& metric) {
  MetricRule rule;
  rule.metric = fields.Choice<std::string>("metric", {{"loss", "loss"}, {"accuracy", "accuracy"}, {"perplexity", "perplexity"}}, metric);
  rule.mode = fields.Choice<MetricMode>("mode", {{"auto", MetricMode::kAuto}, {"min", MetricMode::kMin}, {"max", MetricMode::kMax}},
                                        MetricMode::kAuto);
  return rule;
}

CheckpointConfig ReadCheckpoint(const json& value, std::string path, FieldErrors& errors) {
  CheckpointConfig checkpoint;
  FieldReader fields(value, std::move(path), errors);
  checkpoint.dir = fields.Text("dir", "");
  checkpoint.every_steps = fields.Integer("everySteps", kStepsOrNone, checkpoint.every_steps);
  checkpoint.every_seconds = fields.Integer("everySeconds", {.min = 0, .max = kMostSeconds}, checkpoint.every_seconds);
  checkpoint.keep = static_cast<int>(fields.Integer("keep", {.min = 1, .max = 1'000'000}, checkpoint.keep));
  if (const json* best = fields.Get("keepBest")) {
    FieldReader rule = fields.Inside("keepBest", *best);
    checkpoint.keep_best = ReadMetricRule(rule, MetricRule().metric);
    rule.RefuseOthers();
  }
  fields.RefuseOthers();
  return checkpoint;
}

SummaryConfig ReadSummary(const json& value, std::string path, FieldErrors& errors) {
  SummaryConfig summary;
  FieldReader fields(value, std::move(path), errors);
  summary.dir = fields.Text("dir", "");
  summary.every_steps = fields.Integer("everySteps", kStepsOrNone, summary.every_steps);
  fields.RefuseOthers();
  return summary;
}

EvaluateConfig ReadEvaluate(const json& value, std::string path, FieldErrors& errors) {
  EvaluateConfig evaluate;
  FieldReader fields(value, std::move(path), errors);
  evaluate.every_epochs = fields.Integer("everyEpochs", kStepsOrNone, evaluate.every_epochs);
  evaluate.every_steps = fields.Integer("everySteps", kStepsOrNone, evaluate.every_steps);
  if (const json* stopping = fields.Get("earlyStopping")) {
    FieldReader options = fields.Inside("earlyStopping", *stopping);
    EarlyStoppingConfig& config = evaluate.early_stopping.emplace();
    config.rule = ReadMetricRule(options, MetricRule().metric);
    config.patience = options.Integer("patience", {.min = 0, .max = 1'000'000}, config.patience);
    config.min_delta = options.Number("minDelta", {.min = 0}, config.min_delta);
    config.restore_best = options.Bool("restoreBest", config.restore_best);
    options.RefuseOthers();
  }
  fields.RefuseOthers();
  return evaluate;
}

// As many names as the model has classes.
void CheckClasses(const FieldReader& training_fields, const TrainingConfig& training, FieldErrors& errors) {
  const size_t names = training.data.classes.size();
  if (names == 0) return;
  const absl::StatusOr<int> classes = ClassCountOf(training.model);
  if (!classes.ok() || static_cast<size_t>(*classes) == names) return;
  errors.Add(training_fields.PathOf("data.classes"),
             *classes == 0 ? fmt::format("found {} names, expected none: the model's loss is meanSquaredError", names)
                           : fmt::format("found {} names, expected {}: the model has so many classes", names, *classes));
}

// The model's input is what pictures become.
void CheckImages(const FieldReader& training_fields, const TrainingConfig& training, FieldErrors& errors) {
  if (training.data.format != DataConfig::Format::kImages) return;
  const Shape& input = training.model.input_shape;
  const ImageOptions& images = training.data.images;
  if (!CheckTakesImages(input).ok()) {
    errors.Add(training_fields.PathOf("data.format"),
               fmt::format("found images, but the model takes {}, expected [height, width, 1] or [height, width, 3]", input.ToString()));
    return;
  }
  if (images.height != 0 && (images.height != input[0] || images.width != input[1])) {
    errors.Add(training_fields.PathOf("data.size"),
               fmt::format("found [{}, {}], expected [{}, {}]: the model's input", images.height, images.width, input[0], input[1]));
  }
  const int64_t channels = input.rank() == 2 ? 1 : input[2];
  if (images.channels != 0 && images.channels != channels) {
    errors.Add(training_fields.PathOf("data.channels"), fmt::format("found {}, expected {}: the model's input", images.channels, channels));
  }
}

void CheckLabel(const FieldReader& training_fields, const TrainingConfig& training, FieldErrors& errors) {
  if (!training.data.csv.standardize_label || training.model.loss == Loss::kMeanSquaredError) return;
  errors.Add(training_fields.PathOf("data.standardizeLabel"),
             "found true with a model of classes, expected false, or a model with loss: meanSquaredError");
}

// Early stopping and the best checkpoint need a split to evaluate, and a metric of this model.
void CheckMetrics(const FieldReader& training_fields, const TrainingConfig& training, FieldErrors& errors) {
  const auto check = [&](const MetricRule& rule, const std::string& path) {
    if (!training.data.eval)
      errors.Add(training_fields.PathOf("data.eval"), fmt::format("missing, expected a split to evaluate, because of {}", path));
    const bool text = training.data.format == DataConfig::Format::kText;
    const std::map<std::string, double> metrics = MetricsOf(training.model, {.perplexity = text ? std::optional(1.0) : std::nullopt});
    if (metrics.contains(rule.metric)) return;
    errors.Add(path + ".metric",
               fmt::format("found \"{}\", expected a metric of this model: {}", rule.metric, fmt::join(std::views::keys(metrics), ", ")));
  };
  const std::optional<EarlyStoppingConfig>& stopping = training.evaluate.early_stopping;
  const std::optional<MetricRule>& best = training.checkpoint.keep_best;
  if (stopping) check(stopping->rule, training_fields.PathOf("evaluate.earlyStopping"));
  if (best) check(*best, training_fields.PathOf("checkpoint.keepBest"));
  if (stopping && training.evaluate.every_epochs == 0 && training.evaluate.every_steps == 0) {
    errors.Add(training_fields.PathOf("evaluate.everyEpochs"),
               "found 0, expected at least 1 (or everySteps), because earlyStopping decides at each evaluation");
  }
  if (stopping && stopping->restore_best && best && *best != stopping->rule) {
    errors.Add(training_fields.PathOf("checkpoint.keepBest"),
               "found another metric or mode than earlyStopping's, expected the same or no keepBest, because restoreBest restores the "
               "checkpoint that is kept");
  }
}

// steps: [begin, end), both counted from 0; begin = end: none.
ProfileConfig ReadProfile(const json& value, std::string path, FieldErrors& errors) {
  ProfileConfig profile;
  FieldReader fields(value, std::move(path), errors);
  if (fields.Get("steps") != nullptr) {
    const std::vector<int64_t> steps = fields.IntegerList("steps", kStepsOrNone, 2, 2);
    if (steps.size() == 2) {
      profile.steps = {.begin = steps[0], .end = steps[1]};
      if (profile.steps.size() < 0 || profile.steps.size() > kMostProfiledSteps) {
        fields.Error("steps", fmt::format("found [{}, {}], expected [begin, end] with 0 <= begin <= end <= begin + {}", steps[0], steps[1],
                                          kMostProfiledSteps));
      }
    }
  }
  fields.RefuseOthers();
  return profile;
}

constexpr Numbers kSeconds{.min = 0, .max = 1e8, .above = true};

// Each in seconds.
TimeoutsConfig ReadTimeouts(const json& value, std::string path, FieldErrors& errors) {
  TimeoutsConfig timeouts;
  FieldReader fields(value, std::move(path), errors);
  const auto read = [&fields](std::string_view name, absl::Duration& timeout) {
    timeout = absl::Seconds(fields.Number(name, kSeconds, absl::ToDoubleSeconds(timeout)));
  };
  read("peer", timeouts.peer);
  read("connect", timeouts.connect);
  read("input", timeouts.input);
  read("silence", timeouts.silence);
  read("hello", timeouts.hello);
  read("stop", timeouts.stop);
  fields.RefuseOthers();
  return timeouts;
}

// A list of several GPUs says how many devices there are, where `devices` does not.
void ReadResources(FieldReader& options, bool has_devices, TrainingConfig& training) {
  training.threads = static_cast<int>(options.Integer("threads", {.min = 0, .max = 1024}, 0));
  training.shared_memory = options.Bool("sharedMemory", true);
  absl::StatusOr<DeviceRequest> on = ParseDeviceRequest(options.Text("devices", DeviceRequestText(training.on)));
  if (!on.ok()) {
    options.Error("devices", std::string(on.status().message()));
    return;
  }
  training.on = *std::move(on);
  const auto gpus = static_cast<int>(training.on.gpus.size());
  if (!has_devices && gpus > 1) training.devices = gpus;
  if (gpus > training.devices) {
    options.Error("devices", fmt::format("found {} GPUs, expected at most {}, because training.devices says so", gpus, training.devices));
  }
}

void ReadLength(FieldReader& fields, TrainingConfig& training) {
  const bool has_epochs = fields.Get("epochs") != nullptr;
  const bool has_steps = fields.Get("steps") != nullptr;
  if (has_epochs) training.epochs = fields.Integer("epochs", {.min = 1, .max = 1'000'000});
  if (has_steps) training.steps = fields.Integer("steps", kSteps);
  if (has_epochs && has_steps) fields.Error("steps", "found both epochs and steps, expected one of them");
  if (!has_epochs && !has_steps) fields.Error("epochs", "missing; expected either epochs or steps, a whole number >= 1");
}

}  // namespace

TrainingConfig ParseTraining(const json& value, std::string_view path, FieldErrors& errors) {
  TrainingConfig training;
  FieldReader fields(value, std::string(path), errors);
  const size_t errors_before = errors.size();
  if (const json* model = fields.Require("model", "an object such as {preset: lenet5}")) {
    training.model = ParseModelSpec(*model, fields.PathOf("model"), errors);
    training.model_json = model->dump(-1, ' ', false, json::error_handler_t::replace);
  }
  if (const json* data = fields.Require("data", "an object such as {format: idx, dir: DIR, train: {…}}")) {
    training.data = ParseData(*data, fields.PathOf("data"), errors);
    training.data_json = data->dump(-1, ' ', false, json::error_handler_t::replace);
  }
  training.batch_size = fields.Integer("batchSize", {.min = 1, .max = kMaxBatch}, training.batch_size);
  training.devices = static_cast<int>(fields.Integer("devices", {.min = 1, .max = kMostDevices}, 1));
  training.precision = fields.Choice<std::optional<Precision>>("precision",
                                                               {{PrecisionName(Precision::kFloat32), Precision::kFloat32},
                                                                {PrecisionName(Precision::kBfloat16), Precision::kBfloat16},
                                                                {PrecisionName(Precision::kFloat16), Precision::kFloat16},
                                                                {PrecisionName(Precision::kTf32), Precision::kTf32},
                                                                {"auto", std::nullopt}},
                                                               training.precision);
  if (value.is_object()) ReadLength(fields, training);
  if (const json* optimizer = fields.Get("optimizer")) training.optimizer = ReadOptimizer(*optimizer, fields.PathOf("optimizer"), errors);
  if (const json* strategy = fields.Get("strategy")) training.strategy = ReadStrategy(*strategy, fields.PathOf("strategy"), errors);
  training.seed = static_cast<uint64_t>(fields.Integer("seed", {.min = 0}, 1));
  training.init_from = fields.Text("initFrom", "");
  if (const json* checkpoint = fields.Get("checkpoint")) {
    training.checkpoint = ReadCheckpoint(*checkpoint, fields.PathOf("checkpoint"), errors);
  }
  if (const json* summary = fields.Get("summary")) training.summary = ReadSummary(*summary, fields.PathOf("summary"), errors);
  if (const json* evaluate = fields.Get("evaluate")) training.evaluate = ReadEvaluate(*evaluate, fields.PathOf("evaluate"), errors);
  if (const json* profile = fields.Get("profile")) training.profile = ReadProfile(*profile, fields.PathOf("profile"), errors);
  if (const json* timeouts = fields.Get("timeouts")) training.timeouts = ReadTimeouts(*timeouts, fields.PathOf("timeouts"), errors);
  training.on_non_finite =
      fields.Choice<OnNonFinite>("onNonFinite", {{"stop", OnNonFinite::kStop}, {"skip", OnNonFinite::kSkip}}, training.on_non_finite);
  if (const json* resources = fields.Get("resources")) {
    FieldReader options(*resources, fields.PathOf("resources"), errors);
    ReadResources(options, fields.Get("devices") != nullptr, training);
    options.RefuseOthers();
  }
  fields.RefuseOthers();
  if (errors.size() == errors_before) {
    CheckMetrics(fields, training, errors);
    CheckLabel(fields, training, errors);
    CheckClasses(fields, training, errors);
    CheckImages(fields, training, errors);
  }
  return training;
}

}  // namespace trainyard::engine
