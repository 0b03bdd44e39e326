// Jobs whose devices keep the parameters, and the same jobs with the host's: what the tests of the
// step loop on devices share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/run_saver.h"
#include "trainer/job/job_config.h"
#include "trainer/model/build_graph.h"
#include "trainer/optim/loss_scale.h"
#include "trainer/train/trainer.h"
#include "trainer/transport/test_free_addresses.h"

namespace trainyard::engine {

inline constexpr std::string_view kPictures = R"(
    model:
      input: {shape: [28, 28, 1]}
      layers: [{conv2d: {filters: 2, kernelSize: 5, strides: 4}}, batchNormalization, {activation: {function: relu}}, flatten,
               {dropout: {rate: 0.3}}, {dense: {units: 10}}]
      loss: softmaxCrossEntropy
    data:
      format: idx
      dir: examples/data/mnist
      train: {images: t10k-images-idx3-ubyte.gz, labels: t10k-labels-idx1-ubyte.gz, range: [0, 14]}
)";
// Of three devices every second step has two examples, so one device at least has none.
inline constexpr std::string_view kHowToTrain = R"(
    batchSize: 4
    steps: 6
    optimizer: {name: momentum, learningRate: 0.05, clipNorm: 1}
    strategy: {local: {}}
    seed: 7
)";
inline constexpr std::string_view kVerses = R"(
    model:
      input: {shape: [5], vocabulary: 65}
      layers: [{embedding: {outputDim: 4}}, {lstm: {units: 6, returnSequences: true, stateful: true}}, {dense: {units: 65}}]
      loss: softmaxCrossEntropy
    data: {format: text, dir: examples/data/tinyshakespeare, tokens: characters, train: {files: [input.txt]}}
)";

inline constexpr std::string_view kDiverging = R"(
    model: {input: {shape: [6]}, layers: [{dense: {units: 5}}, {dense: {units: 1}}], loss: meanSquaredError}
    data: {format: synthetic, train: {examples: 64}}
)";
inline constexpr auto kWild = "training.optimizer={name: sgd, learningRate: 1000000}";

// Whether the devices are of a kind that keeps parameters.
enum class Kept : uint8_t { kOnDevices, kOnHost };

class JobsOnDevicesTest : public testing::Test {
 protected:
  JobsOnDevicesTest() { std::filesystem::remove_all(folder_); }
  ~JobsOnDevicesTest() override { std::filesystem::remove_all(folder_); }

  static std::string JobOf(std::string_view model) {
    return "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: devices}\nspec:\n  worker: {replicas: 1}\n  training:" +
           std::string(model) + std::string(kHowToTrain);
  }

  // A worker to its end.
  absl::Status TrainWorker(ReplicaIdentity identity, TrainingConfig config, Kept kept, const std::string& output) {
    const int devices = config.devices;
    const std::unique_ptr<Backend> whole = MakeReferenceBackend(DType::kF32, precision_);
    std::vector<std::unique_ptr<Backend>> backends;
    WorkerBackends of_worker{.whole = *whole, .devices = {}, .precision = {.precision = precision_, .reason = ""}, .place = {}};
    for (int device = 0; device < devices; ++device) {
      if (kept == Kept::kOnHost) {
        backends.push_back(MakeReferenceBackend(DType::kF32, precision_));
      } else {
        TY_ASSIGN_OR_RETURN(backends.emplace_back(),
                            cuda::MakeDeviceBackend(std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{.behind = true}),
                                                    {.precision = precision_}));
      }
      of_worker.devices.push_back(backends.back().get());
    }
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, Trainer::Create({.identity = std::move(identity),
                                                                                 .config = std::move(config),
                                                                                 .output = folder_ + "/" + output,
                                                                                 .http_port = 0,
                                                                                 .loss_scale = loss_scale_},
                                                                                of_worker, RealClock()));
    return trainer->Run([] { return false; });
  }

  // A job of one worker.
  absl::Status Train(std::string_view model, int devices, Kept kept, const std::string& output, std::vector<std::string> overrides = {}) {
    overrides.push_back("training.devices=" + std::to_string(devices));
    TY_ASSIGN_OR_RETURN(TrainingConfig config, ParseTrainingText(JobOf(model), "job.yaml", overrides));
    specs_ = *ParameterSpecsOf(config.model);
    return TrainWorker({}, std::move(config), kept, output);
  }

  // The ranks of an all-reduce, each on a thread: where each has its parameters. Their statuses.
  std::vector<absl::Status> TrainRanks(std::string_view model, const std::vector<Kept>& kept, const std::string& output,
                                       std::vector<std::string> overrides = {}) {
    overrides.emplace_back("training.strategy={allReduce: {}}");
    overrides.emplace_back("training.timeouts={connect: 60}");  // of the ranks that are left where one fails
    const absl::StatusOr<TrainingConfig> config = ParseTrainingText(JobOf(model), "job.yaml", overrides);
    if (!config.ok()) return {config.status()};
    specs_ = *ParameterSpecsOf(config->model);
    const std::vector<std::string> hosts = FreeAddresses(kept.size());
    std::vector<absl::Status> ends(kept.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < kept.size(); ++rank) {
      threads.emplace_back(
          [&, rank] { ends[rank] = TrainWorker({.index = static_cast<int>(rank), .worker_hosts = hosts}, *config, kept[rank], output); });
    }
    for (std::thread& thread : threads) thread.join();
    return ends;
  }

  // At the end.
  std::optional<Checkpoint> CheckpointOf(const std::string& output) {
    const CheckpointStore store(folder_ + "/" + output + "/checkpoints", /*keep=*/1);
    absl::StatusOr<NewestCheckpoint> newest = store.NewestGood();
    EXPECT_TRUE(newest.ok() && newest->checkpoint.has_value()) << newest.status();
    return newest.ok() ? std::move(newest->checkpoint) : std::nullopt;
  }
  ParameterSet ParametersOf(const std::string& output) {
    ParameterSet set(specs_);
    const std::optional<Checkpoint> checkpoint = CheckpointOf(output);
    EXPECT_TRUE(checkpoint && checkpoint->CopyTo(set).ok());
    return set;
  }
  // "": the checkpoint has none.
  std::string LossScaleOf(const std::string& output) {
    const std::optional<Checkpoint> checkpoint = CheckpointOf(output);
    if (!checkpoint || !checkpoint->info().state.contains(kLossScaleState)) return "";
    return checkpoint->info().state.at(kLossScaleState);
  }

  void ExpectNear(const ParameterSet& found, const ParameterSet& expected) {
    for (int key = 0; key < expected.size(); ++key) {
      for (size_t i = 0; i < expected.values(key).size(); ++i) {
        const float value = expected.values(key)[i];
        ASSERT_NEAR(found.values(key)[i], value, 1e-5 * std::max(1.0F, std::abs(value))) << expected.spec(key).name << " " << i;
      }
    }
  }

  void ExpectAlike(std::string_view model, int devices, const std::vector<std::string>& overrides = {}) {
    SCOPED_TRACE(devices);
    const std::string on_devices = "devices" + std::to_string(devices);
    const std::string on_host = "host" + std::to_string(devices);
    absl::Status trained = Train(model, devices, Kept::kOnDevices, on_devices, overrides);
    ASSERT_TRUE(trained.ok()) << trained;
    trained = Train(model, devices, Kept::kOnHost, on_host, overrides);
    ASSERT_TRUE(trained.ok()) << trained;
    ExpectNear(ParametersOf(on_devices), ParametersOf(on_host));
  }

  static std::string FolderOfTest() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    return testing::TempDir() + test.test_suite_name() + "_" + test.name();
  }

  const std::string folder_ = FolderOfTest();
  std::vector<ParameterSpec> specs_;
  Precision precision_ = Precision::kFloat32;
  LossScaleOptions loss_scale_;
};

}  // namespace trainyard::engine
