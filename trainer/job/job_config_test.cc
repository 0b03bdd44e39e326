#include "trainer/job/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] = R"(apiVersion: trainyard.dev/v1alpha1
kind: TrainingJob
metadata: {name: test}
spec:
  ps: {replicas: 1}
  worker: {replicas: 2}
  training:
    model: {preset: lenet5}
    data:
      format: idx
      dir: data
      train: {images: i, labels: l, range: [0, 9000]}
      eval: {images: i, labels: l, range: [9000, 10000]}
    epochs: 8
    optimizer: {name: sgd, learningRate: 0.025}
    strategy: {parameterServer: {mode: async}}
)";

JobConfig Good(std::string_view text, const std::vector<std::string>& overrides = {}) {
  auto job = ParseJob(text, "job.yaml", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *std::move(job) : JobConfig{};
}

std::string Bad(std::string_view text, const std::vector<std::string>& overrides = {}) {
  const auto job = ParseJob(text, "job.yaml", overrides);
  EXPECT_FALSE(job.ok()) << text;
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(job.status().message());
}

// The message for the good job with changes.
std::string BadWith(const std::vector<std::string>& overrides) { return Bad(kJob, overrides); }
JobConfig GoodWith(const std::vector<std::string>& overrides) { return Good(kJob, overrides); }

constexpr char kCifar[] = R"(model: {preset: resnet56v2}
data:
  format: cifar10
  dir: data
  train: {files: [a.bin, b.bin], range: [0, 100], augment: {flip: true, shift: 4}}
  eval: {files: [c.bin]}
steps: 1
)";

constexpr char kText[] = R"(model: {preset: lenet5}
data:
  format: text
  dir: data
  tokens: characters
  vocabulary: 65
  train: {files: [a.txt, b.txt], fraction: [0, 0.9]}
  eval: {files: [b.txt], range: [5, 10]}
steps: 1
)";

TEST(JobConfigTest, AnOverrideOfEpochsTakesThePlaceOfStepsAndTheOtherWayRound) {
  EXPECT_EQ(GoodWith({"training.epochs=null", "training.steps=7"}).training.steps, 7);
  const JobConfig steps = GoodWith({"training.steps=7"});
  EXPECT_EQ(steps.training.steps, 7);
  EXPECT_EQ(steps.training.epochs, 0);
  const auto epochs = ParseTrainingText(kText, "training.yaml", std::vector<std::string>{"spec.training.epochs=3"});
  ASSERT_TRUE(epochs.ok()) << epochs.status();
  EXPECT_EQ(epochs->epochs, 3);
  EXPECT_EQ(epochs->steps, 0);
  EXPECT_THAT(BadWith({"training.steps=7", "training.epochs=3"}), HasSubstr("found both epochs and steps"));
}

TEST(JobConfigTest, AnOverrideBesideTheTrainingIsRefusedWhereTheFileHasTheTrainingAlone) {
  for (const std::string field : {"data", "trainin", "worker"}) {
    const auto training = ParseTrainingText(kText, "training.yaml", std::vector<std::string>{field + ".replicas=1"});
    EXPECT_THAT(std::string(training.status().message()), HasSubstr("spec." + field + ": unknown field"));
  }
}

TEST(JobConfigTest, ANumberThatIsTooLargeForAnyFieldIsToldTheLargest) {
  EXPECT_THAT(BadWith({"training.seed=18446744073709551615"}),
              HasSubstr("spec.training.seed: found 18446744073709551615, expected a whole number from 0 to 9223372036854775807"));
}

TEST(JobConfigTest, StaleGradientsAndStepsThatAreNotFiniteHaveSensibleDefaults) {
  const JobConfig job = Good(kJob);
  EXPECT_EQ(job.training.strategy.stale_gradients, StalenessRule::kAdapt);
  EXPECT_EQ(job.training.on_non_finite, OnNonFinite::kStop);
  EXPECT_TRUE(job.training.shared_memory);
  const JobConfig other = GoodWith({"training.strategy={parameterServer: {mode: async, staleGradients: plain}}", "spec.ps.replicas=1",
                                    "training.onNonFinite=skip", "training.resources.sharedMemory=false"});
  EXPECT_EQ(other.training.strategy.stale_gradients, StalenessRule::kPlain);
  EXPECT_EQ(other.training.on_non_finite, OnNonFinite::kSkip);
  EXPECT_FALSE(other.training.shared_memory);
  EXPECT_THAT(BadWith({"training.onNonFinite=ignore"}),
              HasSubstr("spec.training.onNonFinite: found \"ignore\", expected one of stop, skip"));
}

TEST(JobConfigTest, APrecisionIsOneOfFourOrAuto) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16, Precision::kTf32}) {
    EXPECT_EQ(GoodWith({"training.precision=" + std::string(PrecisionName(precision))}).training.precision, precision);
  }
  EXPECT_EQ(GoodWith({"training.precision=auto"}).training.precision, std::nullopt);
  EXPECT_THAT(BadWith({"training.precision=half"}),
              HasSubstr("spec.training.precision: found \"half\", expected one of float32, bfloat16, float16, tf32, auto"));
}

TEST(JobConfigTest, ALabelIsStandardisedForAModelOfNumbersAlone) {
  const std::string rows = "training.data={format: csv, dir: d, train: {files: [a.csv]}, label: y, standardizeLabel: true}";
  EXPECT_TRUE(GoodWith({rows, "training.model={preset: linear}"}).training.data.csv.standardize_label);
  EXPECT_THAT(BadWith({rows}),
              HasSubstr("spec.training.data.standardizeLabel: found true with a model of classes, expected false, or a model"));
}

TEST(JobConfigTest, AJobMaySayOnWhichGpusItTrains) {
  EXPECT_EQ(Good(kJob).training.on.kind, DeviceRequest::Kind::kAuto);
  EXPECT_EQ(GoodWith({"training.resources.devices=cpu"}).training.on.kind, DeviceRequest::Kind::kCpu);
  const TrainingConfig one = GoodWith({"training.resources.devices=cuda:3", "training.devices=2"}).training;
  EXPECT_THAT(one.on.gpus, ElementsAre(3));
  EXPECT_EQ(one.devices, 2);
  EXPECT_THAT(BadWith({"training.resources.devices=gpu"}),
              HasSubstr("spec.training.resources.devices: found \"gpu\", expected auto, cpu, cuda, or GPUs by number"));
  EXPECT_THAT(BadWith({"training.resources.devices=1"}), HasSubstr("spec.training.resources.devices: found 1, expected a text"));
}

TEST(JobConfigTest, AListOfGpusSaysHowManyDevicesThereAre) {
  EXPECT_EQ(GoodWith({"training.resources.devices='cuda:0,cuda:1'"}).training.devices, 2);
  EXPECT_EQ(GoodWith({"training.resources.devices='cuda:0,cuda:1'", "training.devices=4"}).training.devices, 4);
  EXPECT_THAT(BadWith({"training.resources.devices='cuda:0,cuda:1'", "training.devices=1"}),
              HasSubstr("spec.training.resources.devices: found 2 GPUs, expected at most 1, because training.devices says so"));
}

TEST(JobConfigTest, Cifar10TakesFilesAndAugmentation) {
  const auto training = ParseTrainingText(kCifar, "t.yaml", {});
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->data.format, DataConfig::Format::kCifar10);
  EXPECT_EQ(training->data.train.files, (std::vector<std::string>{"a.bin", "b.bin"}));
  EXPECT_EQ(training->data.train.end, 100);
  EXPECT_THAT(training->data.pipeline.examples,
              ElementsAre(ExampleStage(CacheConfig{}), ExampleStage(MapConfig{.augment = {.flip = true, .shift = 4}, .normalize = {}})));
}

TEST(JobConfigTest, Cifar10WithoutFilesWithACacheOrWithAugmentedEvaluationIsRefused) {
  const auto bad = [](const std::string& change) {
    const auto training = ParseTrainingText(kCifar, "t.yaml", std::vector<std::string>{change});
    EXPECT_FALSE(training.ok()) << change;
    return std::string(training.status().message());
  };
  EXPECT_THAT(bad("spec.training.data.train.files=[]"),
              HasSubstr("spec.training.data.train.files: found no names, expected one or more files"));
  EXPECT_THAT(bad("spec.training.data.eval.augment={flip: true}"), HasSubstr("spec.training.data.eval.augment"));
  EXPECT_THAT(bad("spec.training.data.cache=false"), HasSubstr("spec.training.data.cache"));
  EXPECT_THAT(bad("spec.training.data.train.augment.shift=-1"),
              HasSubstr("spec.training.data.train.augment.shift: found -1, expected a whole number from 0 to 1024"));
  EXPECT_THAT(bad("spec.training.data.train.augment={rotate: 3}"), HasSubstr("spec.training.data.train.augment.rotate"));
}

TEST(JobConfigTest, TextTakesFilesTokensAndAVocabulary) {
  const auto training = ParseTrainingText(kText, "training.yaml");
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->data.format, DataConfig::Format::kText);
  EXPECT_EQ(training->data.tokens, TokenKind::kCharacters);
  EXPECT_EQ(training->data.vocabulary, 65);
  EXPECT_EQ(training->data.train.files, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_DOUBLE_EQ(training->data.train.fraction_end, 0.9);
  EXPECT_EQ(training->data.eval->begin, 5);
  const auto stopping =
      ParseTrainingText(kText, "training.yaml", std::vector<std::string>{"training.evaluate.earlyStopping={metric: perplexity}"});
  ASSERT_TRUE(stopping.ok()) << stopping.status();
  EXPECT_EQ(stopping->evaluate.early_stopping->rule.metric, "perplexity");
}

TEST(JobConfigTest, TextIsNotShuffledAndItsPartsAreFractionsOrRanges) {
  const auto message = [](const std::vector<std::string>& overrides) {
    return std::string(ParseTrainingText(kText, "training.yaml", overrides).status().message());
  };
  EXPECT_THAT(message({"training.data.shuffle=true"}), HasSubstr("spec.training.data.shuffle: unknown"));
  EXPECT_THAT(message({"training.data.tokens=letters"}), HasSubstr("expected one of words, characters"));
  EXPECT_THAT(message({"training.data.train.range=[0, 9]"}), HasSubstr("spec.training.data.train.fraction: found both range and fraction"));
  for (const char* fraction : {"[0.9, 0.9]", "[0]", "[-1, 1]", "[0, 1.5]", "0.9", "[a, b]"}) {
    EXPECT_THAT(message({std::string("training.data.train.fraction=") + fraction}),
                HasSubstr("expected [begin, end] with 0 <= begin < end <= 1"));
  }
  EXPECT_THAT(message({"training.data.train.fraction=[0.9, 0.5]"}), HasSubstr("fraction: found [0.9, 0.5], expected [begin, end]"));
}

constexpr char kTfRecord[] = R"(model: {preset: lenet5}
data:
  format: tfrecord
  dir: data
  features: {image: pixels}
  train: {files: [a.tfrecord, b.tfrecord.gz]}
  pipeline:
    - read
    - interleave: {files: 2, block: 8}
    - shuffle: {buffer: 1000}
    - cache: {file: out/cache}
    - map: {flip: true, shift: 2, normalize: {mean: [0.1, 0.2], std: 0.5}}
    - batch
    - prefetch: {depth: auto}
    - shard
steps: 1
)";

std::string BadPipeline(const std::string& stages) {
  const auto training = ParseTrainingText(kTfRecord, "t.yaml", std::vector<std::string>{"spec.training.data.pipeline=" + stages});
  EXPECT_FALSE(training.ok()) << stages;
  return training.ok() ? "" : std::string(training.status().message());
}

TEST(JobConfigTest, APipelineIsAListOfStages) {
  const auto training = ParseTrainingText(kTfRecord, "t.yaml", {});
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->data.features, (FeatureNames{.image = "pixels", .label = "label"}));
  const MapConfig map{.augment = {.flip = true, .shift = 2}, .normalize = {.mean = {0.1, 0.2}, .std = {0.5}}};
  EXPECT_EQ(training->data.pipeline, (PipelineConfig{.interleave = {.files = 2, .block = 8},
                                                     .shuffle = {.kind = ShuffleConfig::Kind::kBuffer, .buffer = 1000},
                                                     .shard = ShardBy::kBatches,
                                                     .examples = {CacheConfig{.file = "out/cache"}, map},
                                                     .prefetch = {.depth = 2, .automatic = true}}));
}

TEST(JobConfigTest, AShardBeforeTheOrderKeepsWorkersToTheirParts) {
  const auto training = ParseTrainingText(kTfRecord, "t.yaml",
                                          std::vector<std::string>{"spec.training.data.pipeline=[read, shard, shuffle, {cache: memory}]"});
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->data.pipeline.shard, ShardBy::kRanks);
  EXPECT_EQ(training->data.pipeline.shuffle.kind, ShuffleConfig::Kind::kAll);
  EXPECT_TRUE(training->data.pipeline.reads_into_memory());
}

TEST(JobConfigTest, ShortFieldsStandForStages) {
  const auto training =
      ParseTrainingText(kCifar, "t.yaml", std::vector<std::string>{"spec.training.data.prefetch=auto", "spec.training.data.shuffle=false"});
  ASSERT_TRUE(training.ok()) << training.status();
  const auto spelled = ParseTrainingText(
      kCifar, "t.yaml",
      std::vector<std::string>{
          "spec.training.data.train.augment=null",
          "spec.training.data.pipeline=[read, {cache: memory}, {map: {flip: true, shift: 4}}, batch, {prefetch: {depth: auto}}]"});
  ASSERT_TRUE(spelled.ok()) << spelled.status();
  EXPECT_EQ(training->data.pipeline, spelled->data.pipeline);
  const auto both =
      ParseTrainingText(kCifar, "t.yaml", std::vector<std::string>{"spec.training.data.pipeline=[read]", "spec.training.data.prefetch=4"});
  EXPECT_THAT(std::string(both.status().message()), AllOf(HasSubstr("spec.training.data.prefetch: found beside pipeline"),
                                                          HasSubstr("spec.training.data.train.augment: found beside pipeline")));
}

TEST(JobConfigTest, StagesInAnOrderThatMeansNothingAreNamedWithTheReason) {
  EXPECT_THAT(BadPipeline("[batch, {map: {flip: true}}]"),
              HasSubstr("spec.training.data.pipeline[1].map: found after batch, expected before it: it works on examples"));
  EXPECT_THAT(BadPipeline("[shuffle, read]"), HasSubstr("pipeline[1].read: expected as the first stage"));
  EXPECT_THAT(BadPipeline("[shuffle, {interleave: {files: 2}}]"),
              HasSubstr("pipeline[1].interleave: found after shuffle, expected before it"));
  EXPECT_THAT(BadPipeline("[{map: {flip: true}}, cache]"), HasSubstr("pipeline[1].cache: found after a map that flips or shifts"));
  EXPECT_THAT(BadPipeline("[prefetch, batch]"), HasSubstr("pipeline[1].batch: found after prefetch, expected before it"));
  EXPECT_THAT(BadPipeline("[shuffle, shuffle]"), HasSubstr("pipeline[1].shuffle: found again, expected it once"));
}

TEST(JobConfigTest, MistakesInStagesAreNamed) {
  EXPECT_THAT(BadPipeline("[]"), HasSubstr("spec.training.data.pipeline: found"));
  EXPECT_THAT(BadPipeline("[shufle]"), HasSubstr("pipeline[0].shufle: unknown stage; did you mean \"shuffle\"?"));
  EXPECT_THAT(BadPipeline("[{shuffle: {bufer: 3}}]"), HasSubstr("pipeline[0].shuffle.bufer: unknown field"));
  EXPECT_THAT(BadPipeline("[{shuffle: {buffer: 0}}]"), HasSubstr("pipeline[0].shuffle.buffer: found 0, expected a whole number from 1"));
  EXPECT_THAT(BadPipeline("[{map: {}}]"), HasSubstr("pipeline[0].map: does nothing, expected some of flip: true"));
  EXPECT_THAT(BadPipeline("[{map: {normalize: {std: [0.5, 0]}}}]"),
              HasSubstr("pipeline[0].map.normalize.std: found 0, expected a list of numbers"));
  EXPECT_THAT(BadPipeline("[{cache: disk}]"), HasSubstr("pipeline[0].cache: found \"disk\", expected memory or {file: FOLDER}"));
  EXPECT_THAT(BadPipeline("[{prefetch: {depth: many}}]"),
              HasSubstr("pipeline[0].prefetch.depth: found \"many\", expected a number of batches"));
  EXPECT_THAT(BadPipeline("[{read: {}, batch: {}}]"), HasSubstr("pipeline[0]: found an object, expected one stage"));
  EXPECT_THAT(BadPipeline("[3]"), HasSubstr("pipeline[0]: found 3, expected one stage"));
}

TEST(JobConfigTest, InterleaveNeedsDataInSeveralFiles) {
  EXPECT_THAT(BadWith({"spec.training.data.pipeline=[{interleave: {files: 2}}]"}),
              HasSubstr("pipeline[0].interleave: the data of this format does not lie in several files"));
}

TEST(JobConfigTest, AJobFileIsReadWithItsDefaults) {
  const JobConfig job = Good(kJob);
  EXPECT_EQ(job.name, "test");
  EXPECT_EQ(job.name_space, "default");
  EXPECT_EQ(job.ps.replicas, 1);
  EXPECT_EQ(job.worker.replicas, 2);
  EXPECT_EQ(job.worker.restart_policy, RestartPolicy::kExitCode);
  EXPECT_EQ(job.chief.replicas, 0);
  EXPECT_EQ(job.run_policy.backoff_limit, 6);
  EXPECT_EQ(job.training.batch_size, 32);
  EXPECT_EQ(job.training.epochs, 8);
  EXPECT_EQ(job.training.steps, 0);
  EXPECT_EQ(job.training.optimizer.name, "sgd");
  EXPECT_EQ(job.training.optimizer.learning_rate, 0.025);
  EXPECT_EQ(job.training.strategy.kind, StrategyConfig::Kind::kParameterServer);
  EXPECT_EQ(job.training.strategy.mode, StrategyConfig::Mode::kAsync);
  EXPECT_EQ(job.training.data.train.end, 9000);
  EXPECT_EQ(job.training.data.eval->begin, 9000);
  EXPECT_EQ(job.training.model.name, "lenet5");
}

TEST(JobConfigTest, EveryExampleIsAGoodJob) {
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator("examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const auto job = ReadJobFile(entry.path().string());
    EXPECT_TRUE(job.ok()) << job.status();
    ++examples;
  }
  EXPECT_GE(examples, 4);
}

TEST(JobConfigTest, TrainingJsonHoldsWhatTheReplicasReadAgain) {
  const JobConfig job = GoodWith({"spec.training.batchSize=64"});
  const auto training = ParseTrainingText(job.training_json, "training.json");
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->batch_size, 64);
  EXPECT_EQ(training->optimizer, job.training.optimizer);
  EXPECT_EQ(training->data, job.training.data);
}

TEST(JobConfigTest, AReplicaTakesAWholeTrainingJobToo) {
  const auto training = ParseTrainingText(kJob, "job.yaml");
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_EQ(training->epochs, 8);
}

TEST(JobConfigTest, MistakesInATrainingJsonHaveTheSamePaths) {
  const auto training =
      ParseTrainingText(R"({"model": {"preset": "lenet5"}, "data": {"format": "synthetic", "train": {"examples": 0}}, "epochs": 1})",
                        "/etc/trainyard/training.json");
  EXPECT_THAT(std::string(training.status().message()),
              HasSubstr("/etc/trainyard/training.json: spec.training.data.train.examples: found 0, expected a whole number from 1"));
}

TEST(JobConfigTest, AFileThatIsNotThereIsNamed) {
  const auto job = ReadJobFile("no/such/job.yaml");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(job.status().message()), HasSubstr("no/such/job.yaml"));
}

TEST(JobConfigTest, AllMistakesAreToldAtOnceWithTheirLines) {
  const std::string text = Bad(R"(apiVersion: trainyard.dev/v1
kind: TrainingJob
metadata: {name: Test}
spec:
  worker: {replicas: many}
  training:
    model: {preset: lenet5}
    data: {format: idx, train: {images: i, labels: l}}
    epochs: 8
    optimizr: {name: sgd}
)");
  EXPECT_THAT(text, HasSubstr("job.yaml: 4 errors"));
  EXPECT_THAT(text, HasSubstr("job.yaml:1: apiVersion: found \"trainyard.dev/v1\", expected one of trainyard.dev/v1alpha1"));
  EXPECT_THAT(text, HasSubstr("job.yaml:3: metadata.name: found \"Test\", expected lower-case letters"));
  EXPECT_THAT(text, HasSubstr("job.yaml:5: spec.worker.replicas: found \"many\", expected a whole number from 0 to 4096"));
  EXPECT_THAT(text, HasSubstr("job.yaml:10: spec.training.optimizr: unknown field; did you mean \"optimizer\"?"));
}

TEST(JobConfigTest, AnotherKindOfObjectIsRefused) {
  EXPECT_THAT(BadWith({"kind=Job"}), HasSubstr("kind: found \"Job\", expected one of TrainingJob"));
  EXPECT_THAT(Bad("just a text"), HasSubstr("found \"just a text\", expected an object"));
  EXPECT_THAT(Bad(""), HasSubstr("found nothing, expected an object"));
}

TEST(JobConfigTest, MissingPartsAreNamed) {
  const std::string text = Bad("apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\n");
  EXPECT_THAT(text, AllOf(HasSubstr("metadata: missing"), HasSubstr("spec: missing")));
  EXPECT_THAT(BadWith({"training=null"}), HasSubstr("spec.training: missing"));
  EXPECT_THAT(BadWith({"training.model=null", "training.data=null"}),
              AllOf(HasSubstr("spec.training.model: missing"), HasSubstr("spec.training.data: missing")));
}

TEST(JobConfigTest, UnknownFieldsAreRefusedEverywhere) {
  EXPECT_THAT(BadWith({"spec.wroker.replicas=1"}), HasSubstr("spec.wroker: unknown field; did you mean \"worker\"?"));
  EXPECT_THAT(BadWith({"worker.replica=3"}), HasSubstr("spec.worker.replica: unknown field; did you mean \"replicas\"?"));
  EXPECT_THAT(BadWith({"runPolicy.backofLimit=3"}), HasSubstr("spec.runPolicy.backofLimit: unknown field; did you mean \"backoffLimit\"?"));
  EXPECT_THAT(BadWith({"network.prot=3"}), HasSubstr("spec.network.prot: unknown field; did you mean \"port\"?"));
  EXPECT_THAT(BadWith({"training.data.shufle=true"}), HasSubstr("spec.training.data.shufle: unknown field; did you mean \"shuffle\"?"));
  EXPECT_THAT(BadWith({"training.optimizer.learning_rate=1"}),
              HasSubstr("spec.training.optimizer.learning_rate: unknown field; did you mean \"learningRate\"?"));
  EXPECT_THAT(BadWith({"training.checkpoint.every=1"}), HasSubstr("spec.training.checkpoint.every: unknown field"));
}

TEST(JobConfigTest, FieldsForKubernetesAloneAreLeftAlone) {
  GoodWith({"image=registry/trainer:1", "worker.resources={limits: {cpu: 1}}", "worker.template={spec: {anything: [1]}}",
            "network.port=6000", "storage={claimName: c, mountPath: /m}", "runPolicy.cleanPodPolicy=All", "runPolicy.avoidFailedNodes=true",
            "runPolicy.podFailurePolicy={rules: [1]}", "metadata.labels={a: b}", "status={phase: Running}"});
}

TEST(JobConfigTest, WhatAClusterWouldServeIsKnown) {
  EXPECT_FALSE(GoodWith({}).serve);
  EXPECT_FALSE(GoodWith({"serve={replicas: 2, resources: {limits: {cpu: 1}}}"}).serve->best);
  EXPECT_TRUE(GoodWith({"serve.when=best"}).serve->best);
  EXPECT_THAT(BadWith({"serve.when=last"}), HasSubstr("spec.serve.when: found \"last\", expected"));
  EXPECT_THAT(BadWith({"serve.replica=2"}), HasSubstr("spec.serve.replica: unknown field; did you mean \"replicas\"?"));
}

TEST(JobConfigTest, NamesMustFitTheirPods) {
  EXPECT_THAT(BadWith({"metadata.name=" + std::string(55, 'a')}),
              HasSubstr("metadata.name: \"" + std::string(55, 'a') + "-worker-1\" has 64 characters"));
  EXPECT_THAT(BadWith({"metadata.name=-a"}), HasSubstr("metadata.name: found \"-a\""));
}

TEST(JobConfigTest, ReplicasMustFitTheStrategy) {
  EXPECT_THAT(BadWith({"ps.replicas=0"}),
              HasSubstr("spec.ps.replicas: found 0, expected at least 1, because training.strategy is parameterServer"));
  EXPECT_THAT(BadWith({"worker=null"}),
              HasSubstr("spec.worker: missing, expected at least one worker or a chief; add worker: {replicas: 1}"));
  EXPECT_THAT(BadWith({"worker.replicas=0"}), HasSubstr("spec.worker.replicas: found 0, expected at least one worker or a chief"));
  EXPECT_THAT(
      BadWith({"training.strategy={local: {}}"}),
      AllOf(HasSubstr("spec.ps.replicas: found 1, expected 0"),
            HasSubstr("spec.worker.replicas: found 2 workers and chiefs, expected 1, because training.strategy is local; set strategy: ")));
  EXPECT_THAT(BadWith({"chief.replicas=2"}), HasSubstr("spec.chief.replicas: found 2, expected a whole number from 0 to 1"));
}

TEST(JobConfigTest, AnotherFrameworkIsRefused) {
  EXPECT_THAT(BadWith({"framework=PyTorch"}), HasSubstr("spec.framework: found \"PyTorch\", expected Trainyard"));
}

TEST(JobConfigTest, TheStrategyIsExactlyOneAndBuilt) {
  EXPECT_THAT(BadWith({"training.strategy={}"}), HasSubstr("spec.training.strategy: expected exactly one of"));
  EXPECT_THAT(BadWith({"training.strategy.local={}"}), HasSubstr("spec.training.strategy: expected exactly one of"));
  EXPECT_THAT(BadWith({"training.strategy={gossip: {}}"}),
              HasSubstr("spec.training.strategy.gossip: unknown field; known here: local, parameterServer, allReduce"));
  EXPECT_THAT(BadWith({"training.strategy.parameterServer.mode=ssp"}), HasSubstr("mode: found \"ssp\", expected one of sync, async"));
  EXPECT_THAT(BadWith({"training.strategy.parameterServer.mode=asnyc"}),
              HasSubstr("mode: found \"asnyc\", expected one of sync, async; did you mean \"async\"?"));
  EXPECT_THAT(BadWith({"training.strategy={parameterServer: {}}"}), HasSubstr("mode: missing, expected one of sync, async"));
}

TEST(JobConfigTest, OfAnUnknownOptimizerTheOtherFieldsAreCheckedToo) {
  EXPECT_THAT(BadWith({"training.optimizer={name: adm, learningRate: -1, beta1: 7, momentun: 1}"}),
              AllOf(HasSubstr("optimizer.name: found \"adm\", expected one of"), HasSubstr("did you mean \"adam\"?"),
                    HasSubstr("optimizer.learningRate: found -1"), HasSubstr("optimizer.beta1: found 7"),
                    HasSubstr("optimizer.momentun: unknown field; did you mean \"momentum\"?")));
}

TEST(JobConfigTest, OfAnUnknownFormatTheFormatAloneIsTold) {
  EXPECT_THAT(BadWith({"training.data.format=mnist"}), AllOf(HasSubstr("job.yaml: 1 error\n"), HasSubstr("data.format: found \"mnist\"")));
}

TEST(JobConfigTest, AllWrongOverridesAreTold) {
  EXPECT_THAT(BadWith({"training", "training.epochs=2", "training.model[=3"}),
              AllOf(HasSubstr("--set training: expected path=value\n"), HasSubstr("--set training.model[=3: expected a whole number")));
}

TEST(JobConfigTest, AFieldThatWasAskedForTwiceIsOfferedOnce) {
  EXPECT_THAT(BadWith({"training.strategy.parameterServer.zzzzzzz=1"}), HasSubstr("zzzzzzz: unknown field; known here: mode"));
  EXPECT_THAT(BadWith({"training.data.train.zzzzzzz=1"}), HasSubstr("known here: images, labels, range, augment"));
}

TEST(JobConfigTest, EarlyStoppingTakesEvaluationsBetweenSteps) {
  const EvaluateConfig evaluate = GoodWith({"training.evaluate={everyEpochs: 0, everySteps: 5, earlyStopping: {}}"}).training.evaluate;
  EXPECT_EQ(evaluate.every_steps, 5);
  EXPECT_EQ(evaluate.every_epochs, 0);
}

TEST(JobConfigTest, EarlyStoppingHasKerasFieldsAndDefaults) {
  const EvaluateConfig plain = GoodWith({"training.evaluate.earlyStopping={}"}).training.evaluate;
  ASSERT_TRUE(plain.early_stopping);
  EXPECT_EQ(plain.early_stopping->rule, (MetricRule{.metric = "loss", .mode = MetricMode::kAuto}));
  EXPECT_EQ(plain.early_stopping->patience, 0);
  EXPECT_EQ(plain.early_stopping->min_delta, 0);
  EXPECT_FALSE(plain.early_stopping->restore_best);
  const EvaluateConfig all =
      GoodWith({"training.evaluate.earlyStopping={metric: accuracy, mode: max, patience: 3, minDelta: 0.001, restoreBest: true}"})
          .training.evaluate;
  EXPECT_EQ(all.early_stopping->rule, (MetricRule{.metric = "accuracy", .mode = MetricMode::kMax}));
  EXPECT_EQ(all.early_stopping->patience, 3);
  EXPECT_EQ(all.early_stopping->min_delta, 0.001);
  EXPECT_TRUE(all.early_stopping->restore_best);
}

TEST(JobConfigTest, WhatEarlyStoppingAndTheBestCheckpointNeedIsAskedForByName) {
  EXPECT_THAT(BadWith({"training.evaluate.earlyStopping={metric: perplexity}"}),
              HasSubstr("spec.training.evaluate.earlyStopping.metric: found \"perplexity\", expected a metric of this model"));
  EXPECT_THAT(BadWith({"training.evaluate.earlyStopping={metrik: loss}"}), HasSubstr("did you mean \"metric\"?"));
  EXPECT_THAT(BadWith({"training.evaluate.earlyStopping={}", "training.data.eval=null"}),
              HasSubstr("spec.training.data.eval: missing, expected a split to evaluate, because of spec.training.evaluate.earlyStopping"));
  EXPECT_THAT(BadWith({"training.evaluate={everyEpochs: 0, earlyStopping: {}}"}),
              HasSubstr("spec.training.evaluate.everyEpochs: found 0, expected at least 1"));
  EXPECT_THAT(
      BadWith({"training.checkpoint.keepBest={metric: loss}", "training.evaluate.earlyStopping={metric: accuracy, restoreBest: true}"}),
      HasSubstr("spec.training.checkpoint.keepBest: found another metric or mode than earlyStopping's"));
  EXPECT_EQ(GoodWith({"training.checkpoint.keepBest={metric: accuracy}"}).training.checkpoint.keep_best->metric, "accuracy");
}

TEST(JobConfigTest, AnEvaluatorNeedsASplitToEvaluate) {
  EXPECT_TRUE(GoodWith({"evaluator.replicas=1"}).training.evaluator);
  EXPECT_FALSE(GoodWith({}).training.evaluator);
  EXPECT_THAT(BadWith({"evaluator.replicas=1", "training.data.eval=null"}),
              HasSubstr("spec.training.data.eval: missing, expected a split to evaluate, because the job has an evaluator"));
}

TEST(JobConfigTest, EitherEpochsOrStepsSayHowLong) {
  EXPECT_THAT(BadWith({"training.steps=5", "training.epochs=2"}), HasSubstr("spec.training.steps: found both epochs and steps"));
  EXPECT_THAT(BadWith({"training.epochs=null"}), HasSubstr("spec.training.epochs: missing; expected either epochs or steps"));
  EXPECT_EQ(GoodWith({"training.epochs=null", "training.steps=500"}).training.steps, 500);
}

TEST(JobConfigTest, NumbersOutOfRangeAreToldWithTheirRange) {
  EXPECT_THAT(BadWith({"training.batchSize=0"}), HasSubstr("spec.training.batchSize: found 0, expected a whole number from 1 to 1048576"));
  EXPECT_THAT(BadWith({"training.batchSize=1.5"}), HasSubstr("spec.training.batchSize: found 1.5"));
  EXPECT_THAT(BadWith({"training.batchSize=1e30"}), HasSubstr("spec.training.batchSize: found 1e+30"));
  EXPECT_THAT(BadWith({"training.optimizer.learningRate=-1"}),
              HasSubstr("spec.training.optimizer.learningRate: found -1, expected a number above 0"));
  EXPECT_THAT(BadWith({"training.optimizer.learningRate=.nan"}), HasSubstr("spec.training.optimizer.learningRate: found \".nan\""));
  EXPECT_THAT(BadWith({"training.optimizer.learningRate=1e999"}), HasSubstr("spec.training.optimizer.learningRate: found \"1e999\""));
  EXPECT_THAT(BadWith({"training.seed=-1"}), HasSubstr("spec.training.seed: found -1, expected a whole number >= 0"));
  EXPECT_EQ(GoodWith({}).training.checkpoint.every_seconds, 300);
  EXPECT_EQ(GoodWith({"training.checkpoint.everySeconds=0"}).training.checkpoint.every_seconds, 0);
  EXPECT_THAT(BadWith({"training.checkpoint.everySeconds=-1"}), HasSubstr("spec.training.checkpoint.everySeconds: found -1"));
  EXPECT_THAT(BadWith({"training.checkpoint.keep=0"}), HasSubstr("spec.training.checkpoint.keep: found 0"));
  EXPECT_THAT(BadWith({"training.data.train.range=[5, 5]"}),
              HasSubstr("spec.training.data.train.range: found [5, 5], expected [begin, end]"));
  EXPECT_THAT(BadWith({"training.data.train.range=[5]"}), HasSubstr("spec.training.data.train.range: found a list, expected a list of 2"));
}

TEST(JobConfigTest, TimeoutsAreSecondsAboveZeroAndTheOthersKeepTheirDefaults) {
  EXPECT_EQ(GoodWith({}).training.timeouts, TimeoutsConfig());
  const TimeoutsConfig timeouts = GoodWith({"training.timeouts={peer: 0.5, stop: 20}"}).training.timeouts;
  EXPECT_EQ(timeouts.peer, absl::Milliseconds(500));
  EXPECT_EQ(timeouts.stop, absl::Seconds(20));
  EXPECT_EQ(timeouts.input, TimeoutsConfig().input);
  EXPECT_THAT(BadWith({"training.timeouts={silence: 0}"}), HasSubstr("spec.training.timeouts.silence: found 0, expected a number above 0"));
  EXPECT_THAT(BadWith({"training.timeouts={hello: -1}"}), HasSubstr("spec.training.timeouts.hello: found -1"));
  EXPECT_THAT(BadWith({"training.timeouts={pear: 3}"}), HasSubstr("did you mean \"peer\"?"));
}

TEST(JobConfigTest, ProfiledStepsAreAHalfOpenRangeOfAtMostAThousand) {
  EXPECT_EQ(GoodWith({}).training.profile.steps, (StepRange{.begin = 10, .end = 20}));
  EXPECT_EQ(GoodWith({"training.profile={steps: [20, 30]}"}).training.profile.steps, (StepRange{.begin = 20, .end = 30}));
  EXPECT_EQ(GoodWith({"training.profile={steps: [0, 0]}"}).training.profile.steps.size(), 0);
  EXPECT_THAT(BadWith({"training.profile={steps: [9, 8]}"}),
              HasSubstr("spec.training.profile.steps: found [9, 8], expected [begin, end] with 0 <= begin <= end <= begin + 1000"));
  EXPECT_THAT(BadWith({"training.profile={steps: [0, 1001]}"}), HasSubstr("found [0, 1001]"));
  EXPECT_THAT(BadWith({"training.profile={steps: [1]}"}), HasSubstr("expected a list of 2"));
  EXPECT_THAT(BadWith({"training.profile={ranks: [0, 1]}"}), HasSubstr("spec.training.profile.ranks: unknown field"));
}

TEST(JobConfigTest, AnOptimizerTakesItsOwnFieldsOnly) {
  EXPECT_THAT(BadWith({"training.optimizer.name=adm"}),
              HasSubstr("spec.training.optimizer.name: found \"adm\", expected one of sgd, momentum"));
  EXPECT_THAT(BadWith({"training.optimizer={name: adam, momentum: 0.9}"}), HasSubstr("spec.training.optimizer.momentum: unknown field"));
  const OptimizerConfig adam = GoodWith({"training.optimizer={name: adam, beta1: 0.8}"}).training.optimizer;
  EXPECT_EQ(adam.beta1, 0.8);
  EXPECT_EQ(adam.learning_rate, 0.001);
}

TEST(JobConfigTest, SgdWithAMomentumIsTheMomentumOptimizer) {
  EXPECT_EQ(GoodWith({"training.optimizer.momentum=0"}).training.optimizer.name, "sgd");
  EXPECT_EQ(GoodWith({"training.optimizer.momentum=0.9"}).training.optimizer.name, "momentum");
  EXPECT_EQ(GoodWith({"training.optimizer.momentum=0.9", "training.optimizer.nesterov=true"}).training.optimizer.name, "nesterov");
}

TEST(JobConfigTest, SchedulesAreReadWithWhatTheyNeed) {
  const LrScheduleConfig schedule =
      GoodWith({"training.optimizer.schedule={name: exponential, decaySteps: 100, decayRate: 0.5, holdSteps: 30, warmupSteps: 10}"})
          .training.optimizer.schedule;
  EXPECT_EQ(
      schedule,
      (LrScheduleConfig{
          .kind = LrScheduleConfig::Kind::kExponential, .decay_steps = 100, .decay_rate = 0.5, .hold_steps = 30, .warmup_steps = 10}));
  EXPECT_THAT(BadWith({"training.optimizer.schedule={name: step}"}),
              AllOf(HasSubstr("schedule.decaySteps: missing"), HasSubstr("schedule.decayRate: missing")));
}

TEST(JobConfigTest, AFileOrAnOverrideThatLeavesNothingIsRefused) {
  for (const char* text : {"", "# nothing\n", "\xef\xbb\xbf", "null"}) {
    EXPECT_EQ(ParseTrainingText(text, "t.yaml").status().message(), "t.yaml: found nothing, expected a TrainingJob") << text;
  }
  const auto why = [](const std::string& change) {
    return std::string(
        ParseTrainingText("model: {preset: linear}\nsteps: 1\n", "t.yaml", std::vector<std::string>{change}).status().message());
  };
  EXPECT_THAT(why("spec=null"), HasSubstr("spec: missing, expected the job's description"));
  EXPECT_THAT(why("spec.training=null"), HasSubstr("spec.training: missing, expected what is trained"));
  EXPECT_THAT(why("spec=1"), HasSubstr("spec: found 1, expected an object"));
}

TEST(JobConfigTest, ACosineFallsFromTheLearningRateToItsMinimum) {
  const std::string rate = "training.optimizer.learningRate=0.1";
  EXPECT_EQ(GoodWith({rate, "training.optimizer.schedule={name: cosine, decaySteps: 9, minimum: 0.1}"}).training.optimizer.schedule.minimum,
            0.1);
  EXPECT_THAT(BadWith({rate, "training.optimizer.schedule={name: cosine, decaySteps: 9, minimum: 0.2}"}),
              HasSubstr("schedule.minimum: found 0.2, expected at most the learningRate, 0.1"));
}

TEST(JobConfigTest, RunPolicyIsRead) {
  const RunPolicy policy =
      GoodWith({"runPolicy={backoffLimit: 2, activeDeadlineSeconds: 60, successPolicy: AllWorkers, startPolicy: Any, exitCodes: "
                "[{from: 3, to: 5, action: Ignore}]}"})
          .run_policy;
  EXPECT_EQ(policy.backoff_limit, 2);
  EXPECT_EQ(policy.active_deadline_seconds, 60);
  EXPECT_EQ(policy.success_policy, RunPolicy::SuccessPolicy::kAllWorkers);
  EXPECT_EQ(policy.start_policy, RunPolicy::StartPolicy::kAny);
  ASSERT_EQ(policy.exit_codes.size(), 1U);
  EXPECT_EQ(policy.exit_codes[0].action, ExitCodeRule::Action::kIgnore);
  EXPECT_THAT(BadWith({"runPolicy.exitCodes=[{from: 9, to: 5, action: Ignore}]"}),
              HasSubstr("spec.runPolicy.exitCodes[0].to: found 5, expected at least `from`, 9"));
  EXPECT_THAT(BadWith({"worker.restartPolicy=Sometimes"}),
              HasSubstr("spec.worker.restartPolicy: found \"Sometimes\", expected one of Always, OnFailure, Never, ExitCode"));
}

TEST(JobConfigTest, OverridesReachIntoListsAndMakeWhatIsMissing) {
  const std::vector<std::string> model{"training.model={input: {shape: [4]}, layers: [{dense: {units: 3}}], loss: softmaxCrossEntropy}"};
  auto with = model;
  with.push_back("spec.training.model.layers[0].dense.units=7");
  with.push_back("spec.training.model.layers[1].dense={units: 5}");
  const JobConfig job = GoodWith(with);
  const absl::StatusOr<std::vector<ParameterSpec>> parameters = ParameterSpecsOf(job.training.model);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ(parameters->at(0).shape, Shape({4, 7}));
  EXPECT_EQ(parameters->at(2).shape, Shape({7, 5}));
}

TEST(JobConfigTest, ABadOverrideIsNamed) {
  EXPECT_THAT(BadWith({"training"}), HasSubstr("--set training: expected path=value"));
  EXPECT_THAT(BadWith({"=1"}), HasSubstr("--set =1: expected a field's name"));
  EXPECT_THAT(BadWith({"training..x=1"}), HasSubstr("found an empty name in the path"));
  EXPECT_THAT(BadWith({"training.epochs.x=1"}), HasSubstr("\"x\" is looked for in 8, which has no fields"));
  EXPECT_THAT(BadWith({"training.data.train.range[9]=1"}), HasSubstr("[9] is beyond the end of a list of 2"));
  EXPECT_THAT(BadWith({"training.data.train.range[x]=1"}), HasSubstr("expected a whole number between [ and ]"));
  EXPECT_THAT(BadWith({"training.epochs=[1"}), HasSubstr("--set training.epochs=[1"));
}

TEST(JobConfigTest, AMistakeInAnOverrideIsToldAtItsPath) {
  EXPECT_THAT(BadWith({"training.epochs=lots"}), HasSubstr("spec.training.epochs: found \"lots\", expected a whole number"));
}

TEST(JobConfigTest, AllReduceHasWorkersAlone) {
  const std::string strategy = "training.strategy={allReduce: {algorithm: halvingDoubling}}";
  const JobConfig job = GoodWith({strategy, "spec.ps=null"});
  EXPECT_EQ(job.training.strategy.kind, StrategyConfig::Kind::kAllReduce);
  EXPECT_EQ(job.training.strategy.algorithm, AllReduceAlgorithm::kHalvingDoubling);
  EXPECT_EQ(GoodWith({"training.strategy={allReduce: {algorithm: hierarchical}}", "spec.ps=null"}).training.strategy.algorithm,
            AllReduceAlgorithm::kHierarchical);
  EXPECT_THAT(BadWith({strategy, "spec.ps.replicas=2"}), HasSubstr("spec.ps.replicas: found 2, expected 0"));
  EXPECT_THAT(BadWith({strategy, "spec.ps=null", "spec.chief={replicas: 1}"}), HasSubstr("worker 0 is the chief"));
  EXPECT_FALSE(job.training.strategy.shard_optimizer);
  EXPECT_TRUE(GoodWith({"training.strategy={allReduce: {shardOptimizer: true}}", "spec.ps=null"}).training.strategy.shard_optimizer);
  EXPECT_THAT(BadWith({"training.strategy={allReduce: {algorithm: ring}}"}), HasSubstr("because a ring adds each part of a gradient"));
  EXPECT_THAT(BadWith({"training.strategy={allReduce: {}, local: {}}"}), HasSubstr("expected exactly one of"));
}

TEST(JobConfigTest, CompressionIsForServersAndOffWhereItIsNotAskedFor) {
  const auto servers = [](const std::string& options) {
    return std::vector<std::string>{"training.strategy={parameterServer: {mode: sync" + options + "}}", "spec.ps.replicas=1"};
  };
  EXPECT_EQ(GoodWith(servers("")).training.strategy.compression, Compression::kNone);
  EXPECT_EQ(GoodWith(servers(", compression: none")).training.strategy.compression, Compression::kNone);
  EXPECT_EQ(GoodWith(servers(", compression: bfloat16")).training.strategy.compression, Compression::kBfloat16);
  EXPECT_THAT(BadWith(servers(", compression: fp16")),
              HasSubstr("spec.training.strategy.parameterServer.compression: found \"fp16\", expected one of none, bfloat16"));
  EXPECT_TRUE(GoodWith({"training.strategy={allReduce: {compression: none}}", "spec.ps=null"}).training.strategy.compression ==
              Compression::kNone);
  EXPECT_THAT(BadWith({"training.strategy={allReduce: {compression: bfloat16}}", "spec.ps=null"}),
              HasSubstr("spec.training.strategy.allReduce.compression: found \"bfloat16\", expected none, because the workers of an "
                        "all-reduce send each other float32; leave the field out, or set strategy: {parameterServer: {mode: sync, "
                        "compression: bfloat16}}"));
  EXPECT_THAT(BadWith({"training.strategy={local: {compression: bfloat16}}", "spec.ps=null"}), HasSubstr("compression"));
}

TEST(JobConfigTest, JsonJobsAreReadAsWell) {
  const auto job = ParseJob(R"({"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"}, "spec": {
      "worker": {}, "training": {"model": {"preset": "linear"}, "data": {"format": "synthetic", "train": {"examples": 10}}, "steps": 1}}})",
                            "job.json");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->worker.replicas, 1);
  EXPECT_EQ(job->training.strategy.kind, StrategyConfig::Kind::kLocal);
}

}  // namespace
}  // namespace trainyard::engine
