// Ranks of an all-reduce as threads of one process, each with a step loop: what the tests of the
// updater share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/backend/device_optimizer.h"
#include "trainer/kvstore/test_cluster.h"
#include "trainer/train/allreduce_updater.h"
#include "trainer/train/test_shared_transport.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {

struct RankSettings {
  int64_t end_step = 100;
  absl::Duration peer = absl::Seconds(30);  // timeouts.peer
  SpanLog* profile = nullptr;
  bool shard_optimizer = false;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;
  int per_node = 0;  // ranks; 0: their nodes are unknown
  OptimizerConfig optimizer = TestOptimizer();
  int devices = 1;  // of each rank, at most 3: of so few the tree is their order
  // Of a rank with one device: rows of the last tensor that its gradients have anything in, in a
  // step; nothing: in all of them, and they list none.
  std::function<std::optional<std::vector<int32_t>>(int rank, int64_t step)> rows = nullptr;
  bool carries_state = false;    // from step to step
  bool by_rows = false;          // such a gradient travels by rows
  std::string device_kind = "";  // of a device that keeps the parameters; "": the host does
};

// A rank's step loop.
class Rank {
 public:
  Rank(int rank, int ranks, Transport& transport, TrainingState checkpoint, const RankSettings& settings = {})
      : rank_(rank),
        devices_(settings.devices),
        rows_(settings.rows),
        parameters_(TestSpecs()),
        gradients_(TestSpecs()),
        checkpoint_(std::move(checkpoint)) {
    const int64_t end_step = settings.end_step;
    AllReduceUpdaterOptions options{.optimizer = settings.optimizer,
                                    .devices = settings.devices,
                                    .shard_optimizer = settings.shard_optimizer,
                                    .specs = TestSpecs(),
                                    .keys = {0, 1, 3},
                                    .row_keys = settings.by_rows ? std::vector<int>{3} : std::vector<int>{},
                                    .bucket_bytes = 100'000,  // so that a step has two
                                    .end_step = [end_step](const InputOrigin&) { return end_step; }};
    for (int i = 0; i < ranks; ++i) options.group.hosts.push_back("rank-" + std::to_string(i));
    options.group.listen = options.group.hosts[rank];
    options.group.rank = rank;
    if (settings.per_node > 0) options.group.node = "node-" + std::to_string(rank / settings.per_node);
    options.group.profile = settings.profile;
    options.group.algorithm = settings.algorithm;
    options.group.agreement = {{"the seed", "1"}};
    if (!settings.device_kind.empty()) {
      backend_ = *cuda::MakeDeviceBackend(std::make_unique<cuda::HostDevice>(cuda::HostDeviceOptions{.behind = true}));
      device_ = *backend_->MakeDeviceOptimizer({.specs = parameters_.specs(), .optimizer = settings.optimizer});
      options.device = device_.get();
      options.group.device_kind = settings.device_kind;
    }
    options.group.timeouts = {.peer = settings.peer, .connect = absl::Seconds(30), .silence = absl::Seconds(1)};
    options.load = [this](bool again) {
      if (again) ++loaded_again_;
      TrainingState state{.parameters = CopyOf(checkpoint_.parameters), .slots = {}, .step = checkpoint_.step};
      for (const ParameterSet& slot : checkpoint_.slots) state.slots.push_back(CopyOf(slot));
      return state;
    };
    options.empty_state = [slots = checkpoint_.slots.size()] {
      TrainingState state{.parameters = ParameterSet(TestSpecs()), .slots = {}, .step = 0};
      for (size_t slot = 0; slot < slots; ++slot) state.slots.emplace_back(TestSpecs());
      return state;
    };
    options.finished = [end_step](int64_t step) { return step >= end_step; };
    options.carries_state = [carries = settings.carries_state] { return carries; };
    absl::StatusOr<std::unique_ptr<AllReduceUpdater>> updater =
        AllReduceUpdater::Create(std::move(options), std::make_unique<SharedTransport>(transport));
    EXPECT_TRUE(updater.ok()) << updater.status();
    updater_ = *std::move(updater);
  }

  absl::Status Start() {
    absl::StatusOr<TrainingStart> start = updater_->Start(parameters_);
    if (!start.ok()) return start.status();
    start_ = *start;
    step_ = start_.worker_step;
    if (start_.redone) redone_.push_back(*start_.redone);
    return updater_->Refresh(parameters_);
  }
  // A step of a rank without examples.
  void PushNothing() {
    for (const int key : {3, 1, 0, 2}) updater_->PushNothing(key, step_);
  }
  void Push(int keys = 3) {
    FillGradients(parameters_, rank_ * devices_, step_, gradients_);
    ParameterSet other(TestSpecs());
    for (int device = 1; device < devices_; ++device) {
      FillGradients(parameters_, rank_ * devices_ + device, step_, other);
      for (const int key : {3, 1, 0}) AddTo(other.values(key), gradients_.values(key));
    }
    if (rows_) LeaveRows(rows_(rank_, step_));
    for (const int key : {3, 1, 0}) {
      GradientView sum = std::as_const(gradients_).gradient(key);
      sum.addends = devices_;
      if (keys-- > 0) updater_->Push(key, sum, step_);
    }
    updater_->PushNothing(2, step_);
  }
  // The step that is pushed, or the start after its rollback.
  absl::Status Await() {
    const absl::StatusOr<StepResult> result = updater_->Wait(parameters_);
    if (IsRolledBack(result.status())) return Start();
    if (!result.ok()) return result.status();
    ended_ = result->ended;
    if (!ended_) ++step_;
    return updater_->Refresh(parameters_);
  }
  absl::Status Train(int64_t until) {
    while (step_ < until && !ended_) {
      Push();
      if (absl::Status status = Await(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status StartAndTrain(int64_t until) {
    const absl::Status started = Start();
    return started.ok() ? Train(until) : started;
  }
  void Kill() { updater_.reset(); }

  Updater& updater() { return *updater_; }
  std::vector<std::string> bucket_names() const { return updater_->bucket_names(); }
  TrainingState State() {
    absl::StatusOr<TrainingState> state = TryState();
    EXPECT_TRUE(state.ok()) << state.status();
    return *std::move(state);
  }
  absl::StatusOr<TrainingState> TryState() { return updater_->State(parameters_); }
  const TrainingStart& start() const { return start_; }
  int64_t step() const { return step_; }
  int loaded_again() const { return loaded_again_; }
  const std::vector<RedoneSteps>& redone() const { return redone_; }
  std::string Sha256() const { return parameters_.Sha256Hex(); }
  // What steps of its device would run with.
  std::string DeviceSha256() {
    ParameterSet parameters(TestSpecs());
    EXPECT_TRUE(device_->FetchParameters(parameters).ok());
    return parameters.Sha256Hex();
  }

 private:
  void LeaveRows(const std::optional<std::vector<int32_t>>& rows) {
    TouchedRows& touched = gradients_.touched_rows(3);
    touched.SetAll();
    if (!rows) return;
    const auto width = static_cast<size_t>(gradients_.spec(3).row_elements());
    const std::span<float> values = gradients_.values(3);
    size_t next = 0;  // of the rows
    for (size_t row = 0; row < values.size() / width; ++row) {
      if (next < rows->size() && static_cast<size_t>((*rows)[next]) == row) {
        ++next;
      } else {
        std::ranges::fill(values.subspan(row * width, width), 0.0F);
      }
    }
    touched.Reserve(rows->size());
    touched.Touch(*rows);
  }

  const int rank_;
  const int devices_;
  const std::function<std::optional<std::vector<int32_t>>(int, int64_t)> rows_;
  ParameterSet parameters_;
  ParameterSet gradients_;
  TrainingState checkpoint_;
  TrainingStart start_;
  int64_t step_ = 0;
  bool ended_ = false;
  std::atomic<int> loaded_again_ = 0;
  std::vector<RedoneSteps> redone_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<DeviceOptimizer> device_;
  std::unique_ptr<AllReduceUpdater> updater_;  // sends from gradients_: it goes first
};

class AllReduceRanksTest : public ::testing::Test {
 protected:
  void Make(int ranks, const RankSettings& settings = {}) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(Make(rank, ranks, StartState(TestSpecs()), settings));
  }
  std::unique_ptr<Rank> Make(int rank, int ranks, TrainingState checkpoint, const RankSettings& settings = {}) {
    return std::make_unique<Rank>(rank, ranks, *transport_, std::move(checkpoint), settings);
  }
  void OnAll(const std::function<absl::Status(Rank&)>& work) {
    std::vector<std::thread> threads;
    for (const std::unique_ptr<Rank>& rank : ranks_) {
      threads.emplace_back([&] {
        const absl::Status status = work(*rank);
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<Transport> transport_ = MakeInprocTransport();
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace trainyard::engine
