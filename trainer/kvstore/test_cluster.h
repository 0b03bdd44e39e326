// Workers and servers as threads of one process, over every transport: what the tests of the
// kvstore share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "trainer/base/fake_clock.h"
#include "trainer/kvstore/client.h"
#include "trainer/kvstore/server.h"
#include "trainer/kvstore/test_transports.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Small, as the sanitizers' builds are not optimised.
inline std::vector<ParameterSpec> TestSpecs() {
  return {{.name = "conv/kernel", .shape = Shape({3, 3, 1, 7}), .trainable = true},
          {.name = "conv/bias", .shape = Shape({7}), .trainable = true},
          {.name = "moving/mean", .shape = Shape({7}), .trainable = false},
          {.name = "dense/kernel", .shape = Shape({330, 100}), .trainable = true}};
}

// Cuts the dense kernel over all servers, in several parts each, as the default cuts a larger one.
inline constexpr PlacementOptions kTestPlacement = {.split_elements = int64_t{1} << 15, .part_elements = int64_t{1} << 12};

inline OptimizerConfig TestOptimizer() {
  OptimizerConfig config;
  config.name = "momentum";
  config.learning_rate = 0.1;
  config.schedule.kind = LrScheduleConfig::Kind::kExponential;
  config.schedule.decay_steps = 3;
  config.schedule.decay_rate = 0.5;
  return config;
}

// The loops over all values go by pointers: tests are not optimised (cmake/Compiler.cmake), and a
// span's iterators take several times as long then.

inline ParameterSet StartValues(const std::vector<ParameterSpec>& specs) {
  ParameterSet values(specs);
  for (int key = 0; key < values.size(); ++key) {
    float* const out = values.values(key).data();
    const auto size = static_cast<int64_t>(values.values(key).size());
    for (int64_t i = 0; i < size; ++i) out[i] = 0.001F * static_cast<float>(((i + 1) * 7919 + key * 104'729) % 2003 - 1000);
  }
  return values;
}

// Of as many values each.
inline void AddTo(std::span<const float> values, std::span<float> sums) {
  const float* const from = values.data();
  float* const to = sums.data();
  const size_t size = sums.size();
  for (size_t i = 0; i < size; ++i) to[i] += from[i];
}

// A gradient that depends on worker, step and the parameters.
inline void FillGradients(const ParameterSet& parameters, int worker, int64_t step, ParameterSet& gradients) {
  for (int key = 0; key < parameters.size(); ++key) {
    const float* const values = parameters.values(key).data();
    float* const out = gradients.values(key).data();
    const size_t size = parameters.values(key).size();
    const float shift = 0.01F * static_cast<float>(worker + 1) + 0.003F * static_cast<float>(step);
    for (size_t i = 0; i < size; ++i) out[i] = 0.1F * values[i] + shift;
  }
}

inline TrainingState StartState(const std::vector<ParameterSpec>& specs) {
  TrainingState state{.parameters = StartValues(specs), .slots = {}, .step = 0};
  state.slots.emplace_back(specs);
  return state;
}

// One step of one process without servers, by the sum of the gradients of `workers`; divides it.
inline void ApplyMean(const Optimizer& optimizer, int workers, int64_t step, ParameterSet& sum, TrainingState& state) {
  for (int key = 0; key < sum.size(); ++key) {
    if (!sum.specs()[key].trainable) continue;
    float* const mean = sum.values(key).data();
    const size_t size = sum.values(key).size();
    for (size_t i = 0; i < size; ++i) mean[i] /= static_cast<float>(workers);
    const std::span<float> slot = state.slots[0].values(key);
    optimizer.Apply({.learning_rate = LearningRateAt(TestOptimizer(), step), .step = step}, state.parameters.values(key), sum.values(key),
                    {&slot, 1});
  }
}

// The results of one process without servers, with the mean gradient of `workers`, at most 3: of so
// few the tree is their order.
inline TrainingState TrainLocally(int workers, int64_t steps) {
  const std::vector<ParameterSpec> specs = TestSpecs();
  const std::unique_ptr<Optimizer> optimizer = *MakeOptimizer(TestOptimizer());
  TrainingState state = StartState(specs);
  ParameterSet gradients(specs);
  for (int64_t step = 0; step < steps; ++step) {
    ParameterSet mean(specs);
    for (int worker = 0; worker < workers; ++worker) {
      FillGradients(state.parameters, worker, step, gradients);
      for (int key = 0; key < mean.size(); ++key) {
        if (worker == 0) {
          std::ranges::copy(gradients.values(key), mean.values(key).begin());
        } else {
          AddTo(gradients.values(key), mean.values(key));
        }
      }
    }
    ApplyMean(*optimizer, workers, step, mean, state);
  }
  state.step = steps;
  return state;
}

inline bool Becomes(const std::function<bool()>& condition) {
  for (const absl::Time end = RealClock().Now() + absl::Seconds(30); RealClock().Now() < end; absl::SleepFor(absl::Milliseconds(1))) {
    if (condition()) return true;
  }
  return false;
}

class KvstoreTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  ~KvstoreTest() override {
    for (auto& server : servers_) server->Stop();
    for (std::thread& thread : server_threads_) thread.join();
    servers_.clear();
  }

  KvServerOptions ServerOptions(int server, int servers, int workers, KvMode mode) {
    return {.address = GetParam().address(server),
            .server = server,
            .servers = servers,
            .workers = workers,
            .mode = mode,
            .optimizer = TestOptimizer(),
            .specs = TestSpecs(),
            .placement = kTestPlacement,
            .lendable = TestMemory(),
            .timeouts = {.peer = absl::Seconds(30)}};
  }

  void StartServers(int servers, int workers, KvMode mode) {
    for (int i = 0; i < servers; ++i) StartServer(ServerOptions(i, servers, workers, mode));
  }
  void StartServer(const KvServerOptions& options) {
    absl::StatusOr<std::unique_ptr<KvServer>> server = KvServer::Create(options, *transport_);
    ASSERT_TRUE(server.ok()) << server.status();
    const size_t index = options.server;
    if (servers_.size() <= index) {
      servers_.resize(index + 1);
      ended_.resize(index + 1);
      addresses_.resize(index + 1);
      server_threads_.resize(index + 1);
    }
    servers_[index] = *std::move(server);
    addresses_[index] = servers_[index]->address();
    server_threads_[index] = std::thread([this, index, running = servers_[index].get()] { ended_[index] = running->Run(); });
  }
  // As by kill -9: nothing is said, nothing kept. The next one listens at the same address.
  void LoseServer(int index) {
    servers_[index]->Stop();
    server_threads_[index].join();
    servers_[index].reset();
  }
  absl::Status AwaitServerEnd(int index) {
    server_threads_[index].join();
    server_threads_[index] = std::thread([] {});
    return ended_[index];
  }

  KvClientOptions ClientOptions(int worker, int workers, KvMode mode) {
    KvClientOptions options;
    options.servers = addresses_;
    options.worker = worker;
    options.workers = workers;
    options.chief = worker == 0;
    options.mode = mode;
    options.specs = TestSpecs();
    options.placement = kTestPlacement;
    options.slot_names = {"momentum"};
    options.timeouts.connect = absl::Seconds(30);
    options.timeouts.peer = absl::Seconds(30);
    if (worker == 0) options.load = [](bool) { return StartState(TestSpecs()); };
    return options;
  }
  std::unique_ptr<KvClient> MakeClient(const KvClientOptions& options) {
    absl::StatusOr<std::unique_ptr<KvClient>> client = KvClient::Create(options, *transport_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // A worker without a chief, whose wait for the chief ends by EndWaitForChief: not before the
  // server has answered, however slow this machine is.
  KvClientOptions WithoutChief(KvClientOptions options) {
    options.timeouts.connect = kWaitForChief;
    options.clock = &clock_;
    options.on_wait = [this](const std::string& wait) {
      if (wait.find("the chief has not initialised it") != std::string::npos) waits_for_chief_ = true;
    };
    return options;
  }
  void EndWaitForChief() {
    EXPECT_TRUE(Becomes([this] {
      clock_.Advance(absl::Seconds(1));
      return waits_for_chief_.load();
    }));
    clock_.Advance(kWaitForChief);
  }

  static constexpr absl::Duration kWaitForChief = absl::Hours(100'000);
  std::atomic<bool> waits_for_chief_ = false;
  FakeClock clock_;  // for servers and clients that a test gives it to: they all end before it
  std::unique_ptr<Transport> transport_ = GetParam().make();
  std::vector<std::unique_ptr<KvServer>> servers_;
  std::vector<absl::Status> ended_;
  std::vector<std::string> addresses_;
  std::vector<std::thread> server_threads_;
};

// One worker: its client, parameters and gradients.
class TestWorker {
 public:
  TestWorker(std::unique_ptr<KvClient> client, int index, const std::vector<ParameterSpec>& specs = TestSpecs())
      : index_(index), parameters_(specs), gradients_(specs, TestMemory().get()), client_(std::move(client)) {}

  absl::Status Start() {
    absl::StatusOr<TrainingStart> start = client_->Start(parameters_);
    if (!start.ok()) return start.status();
    start_ = *start;
    step_ = start_.worker_step;
    return absl::OkStatus();
  }
  void Push(bool forwards = false) {
    FillGradients(parameters_, index_, step_, gradients_);
    for (int i = 0; i < parameters_.size(); ++i) {
      const int key = forwards ? i : parameters_.size() - 1 - i;
      PushKey(key);
    }
  }
  void PushKey(int key) {
    if (parameters_.spec(key).trainable) {
      client_->PushGradient(key, gradients_.values(key), step_);
    } else {
      client_->PushNothing(key, step_);
    }
  }
  // The first of a step's pushes alone: then the worker is killed.
  void PushOneKey() {
    FillGradients(parameters_, index_, step_, gradients_);
    PushKey(0);
  }
  absl::Status Wait() {
    absl::StatusOr<StepResult> result = client_->Wait(parameters_);
    if (!result.ok()) return result.status();
    result_ = *result;
    ++step_;
    return absl::OkStatus();
  }
  // As the step loop does it: after a rollback from where Start says.
  absl::Status Train(int64_t until) {
    while (step_ < until) {
      Push();
      absl::Status status = Wait();
      if (IsRolledBack(status)) status = GoBack();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status GoBack() {
    ++rollbacks_;
    const absl::Status status = Start();
    if (start_.redone) redone_.push_back(*start_.redone);
    return status;
  }
  int rollbacks() const { return rollbacks_; }
  const std::vector<RedoneSteps>& redone() const { return redone_; }

  KvClient& client() { return *client_; }
  void Kill() { client_.reset(); }
  const TrainingStart& start() const { return start_; }
  const StepResult& result() const { return result_; }
  int64_t step() const { return step_; }
  const ParameterSet& parameters() const { return parameters_; }

 private:
  const int index_;
  ParameterSet parameters_;
  ParameterSet gradients_;
  std::unique_ptr<KvClient> client_;  // sends from gradients_: it goes first
  int64_t step_ = 0;
  TrainingStart start_;
  StepResult result_;
  int rollbacks_ = 0;
  std::vector<RedoneSteps> redone_;
};

// Trains all workers to `until` at once, each on a thread.
inline void TrainAll(const std::vector<TestWorker*>& workers, int64_t until) {
  std::vector<std::thread> threads;
  for (TestWorker* worker : workers) {
    threads.emplace_back([worker, until] {
      const absl::Status status = worker->Train(until);
      EXPECT_TRUE(status.ok()) << status;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace trainyard::engine
