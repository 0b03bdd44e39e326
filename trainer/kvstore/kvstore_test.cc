// Workers and servers as threads of one process, over every transport: results, exactness, failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "trainer/kvstore/client.h"
#include "trainer/kvstore/server.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/optimizer.h"
#include "trainer/transport/framing.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<ParameterSpec> TestSpecs() {
  return {{.name = "conv/kernel", .shape = Shape({3, 3, 1, 7}), .trainable = true},
          {.name = "conv/bias", .shape = Shape({7}), .trainable = true},
          {.name = "moving/mean", .shape = Shape({7}), .trainable = false},
          {.name = "dense/kernel", .shape = Shape({1'100, 1'000}), .trainable = true}};
}

OptimizerConfig TestOptimizer() {
  OptimizerConfig config;
  config.name = "momentum";
  config.learning_rate = 0.1;
  config.schedule.kind = LrScheduleConfig::Kind::kExponential;
  config.schedule.decay_steps = 3;
  config.schedule.decay_rate = 0.5;
  return config;
}

ParameterSet StartValues(const std::vector<ParameterSpec>& specs) {
  ParameterSet values(specs);
  for (int key = 0; key < values.size(); ++key) {
    int64_t i = 0;
    for (float& value : values.values(key)) value = 0.001F * static_cast<float>((++i * 7919 + key * 104'729) % 2003 - 1000);
  }
  return values;
}

// A gradient that depends on worker, step and the parameters.
void FillGradients(const ParameterSet& parameters, int worker, int64_t step, ParameterSet& gradients) {
  for (int key = 0; key < parameters.size(); ++key) {
    const std::span<const float> values = parameters.values(key);
    const std::span<float> out = gradients.values(key);
    const float shift = 0.01F * static_cast<float>(worker + 1) + 0.003F * static_cast<float>(step);
    for (size_t i = 0; i < values.size(); ++i) out[i] = 0.1F * values[i] + shift;
  }
}

KvState StartState(const std::vector<ParameterSpec>& specs) {
  KvState state{.parameters = StartValues(specs), .slots = {}, .step = 0};
  state.slots.emplace_back(specs);
  return state;
}

// What one process without servers would compute with the mean gradient of `workers`, summed in their order.
KvState TrainLocally(int workers, int64_t steps) {
  const std::vector<ParameterSpec> specs = TestSpecs();
  const std::unique_ptr<Optimizer> optimizer = *MakeOptimizer(TestOptimizer());
  KvState state = StartState(specs);
  ParameterSet gradients(specs);
  for (int64_t step = 0; step < steps; ++step) {
    ParameterSet mean(specs);
    for (int worker = 0; worker < workers; ++worker) {
      FillGradients(state.parameters, worker, step, gradients);
      for (int key = 0; key < mean.size(); ++key) {
        for (size_t i = 0; i < mean.values(key).size(); ++i) {
          mean.values(key)[i] = worker == 0 ? gradients.values(key)[i] : mean.values(key)[i] + gradients.values(key)[i];
        }
      }
    }
    for (int key = 0; key < mean.size(); ++key) {
      if (!specs[key].trainable) continue;
      for (float& value : mean.values(key)) value /= static_cast<float>(workers);
      const std::span<float> slot = state.slots[0].values(key);
      optimizer->Apply({.learning_rate = LearningRateAt(TestOptimizer(), step), .step = step}, state.parameters.values(key),
                       mean.values(key), {&slot, 1});
    }
  }
  state.step = steps;
  return state;
}

struct TransportKind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
  std::string (*address)(int server);
};

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
            .wait_deadline = absl::Seconds(30)};
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
    options.slot_names = {"momentum"};
    options.connect_deadline = absl::Seconds(30);
    options.wait_deadline = absl::Seconds(30);
    if (worker == 0) options.load = [] { return StartState(TestSpecs()); };
    return options;
  }
  std::unique_ptr<KvClient> MakeClient(const KvClientOptions& options) {
    absl::StatusOr<std::unique_ptr<KvClient>> client = KvClient::Create(options, *transport_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  std::unique_ptr<Transport> transport_ = GetParam().make();
  std::vector<std::unique_ptr<KvServer>> servers_;
  std::vector<absl::Status> ended_;
  std::vector<std::string> addresses_;
  std::vector<std::thread> server_threads_;
};

// One worker: its client, parameters and gradients.
class TestWorker {
 public:
  TestWorker(std::unique_ptr<KvClient> client, int index)
      : index_(index), parameters_(TestSpecs()), gradients_(TestSpecs()), client_(std::move(client)) {}

  absl::Status Start() {
    absl::StatusOr<KvStart> start = client_->Start(parameters_);
    if (!start.ok()) return start.status();
    start_ = *start;
    step_ = start_.worker_step;
    return absl::OkStatus();
  }
  void Push(bool forwards = false) {
    FillGradients(parameters_, index_, step_, gradients_);
    for (int i = 0; i < parameters_.size(); ++i) {
      const int key = forwards ? i : parameters_.size() - 1 - i;
      if (parameters_.spec(key).trainable) client_->PushGradient(key, gradients_.values(key), step_);
    }
  }
  absl::Status Wait() {
    absl::StatusOr<KvStepResult> result = client_->Wait(parameters_);
    if (!result.ok()) return result.status();
    result_ = *result;
    ++step_;
    return absl::OkStatus();
  }
  absl::Status Train(int64_t until) {
    while (step_ < until) {
      Push();
      if (absl::Status status = Wait(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  KvClient& client() { return *client_; }
  void Kill() { client_.reset(); }
  const KvStart& start() const { return start_; }
  const KvStepResult& result() const { return result_; }
  int64_t step() const { return step_; }
  const ParameterSet& parameters() const { return parameters_; }

 private:
  const int index_;
  ParameterSet parameters_;
  ParameterSet gradients_;
  std::unique_ptr<KvClient> client_;  // sends from gradients_: it goes first
  int64_t step_ = 0;
  KvStart start_;
  KvStepResult result_;
};

struct ClusterShape {
  int workers;
  int servers;
};
constexpr ClusterShape kShapes[] = {{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 3}, {2, 2}};
constexpr int64_t kSteps = 4;

TEST_P(KvstoreTest, SyncGivesTheBitsOfALocalRunInEveryClusterShape) {
  for (const ClusterShape shape : kShapes) {
    SCOPED_TRACE(std::to_string(shape.workers) + "w" + std::to_string(shape.servers) + "p");
    StartServers(shape.servers, shape.workers, KvMode::kSync);
    const KvState expected = TrainLocally(shape.workers, kSteps);
    std::vector<std::string> hashes(shape.workers);
    KvState pulled;
    std::vector<std::thread> threads;
    for (int w = 0; w < shape.workers; ++w) {
      threads.emplace_back([&, w] {
        TestWorker worker(MakeClient(ClientOptions(w, shape.workers, KvMode::kSync)), w);
        EXPECT_TRUE(worker.Start().ok());
        EXPECT_TRUE(worker.Train(kSteps).ok());
        EXPECT_EQ(worker.result().global_step, kSteps);
        hashes[w] = worker.parameters().Sha256Hex();
        if (w == 0) {
          absl::StatusOr<KvState> state = worker.client().Pull(/*with_slots=*/true);
          EXPECT_TRUE(state.ok());
          pulled = *std::move(state);
        }
        worker.client().Done();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& hash : hashes) EXPECT_EQ(hash, expected.parameters.Sha256Hex());
    EXPECT_EQ(pulled.parameters.Sha256Hex(), expected.parameters.Sha256Hex());
    EXPECT_EQ(pulled.slots[0].Sha256Hex(), expected.slots[0].Sha256Hex());
    EXPECT_EQ(pulled.step, kSteps);
    for (int i = 0; i < shape.servers; ++i) {
      EXPECT_TRUE(AwaitServerEnd(i).ok());
      EXPECT_EQ(servers_[i]->stats().workers[0].pushes, kSteps);
    }
    servers_.clear();
    addresses_.clear();
    for (std::thread& thread : server_threads_) thread.join();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, AsyncCountsEveryStepOfEveryWorkerInEveryClusterShape) {
  for (const ClusterShape shape : kShapes) {
    SCOPED_TRACE(std::to_string(shape.workers) + "w" + std::to_string(shape.servers) + "p");
    StartServers(shape.servers, shape.workers, KvMode::kAsync);
    std::vector<std::thread> threads;
    std::string hash;
    for (int w = 0; w < shape.workers; ++w) {
      threads.emplace_back([&, w] {
        TestWorker worker(MakeClient(ClientOptions(w, shape.workers, KvMode::kAsync)), w);
        EXPECT_TRUE(worker.Start().ok());
        EXPECT_TRUE(worker.Train(kSteps).ok());
        worker.client().Leave();
        if (w == 0) {
          EXPECT_TRUE(worker.client().AwaitOthers(absl::Seconds(30)).ok());
          absl::StatusOr<KvState> state = worker.client().Pull(/*with_slots=*/false);
          EXPECT_TRUE(state.ok());
          EXPECT_EQ(state->step, kSteps * shape.workers);
          hash = state->parameters.Sha256Hex();
        }
        worker.client().Done();
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (shape.workers == 1) EXPECT_EQ(hash, TrainLocally(1, kSteps).parameters.Sha256Hex());
    for (int i = 0; i < shape.servers; ++i) {
      EXPECT_TRUE(AwaitServerEnd(i).ok());
      const KvServerStats stats = servers_[i]->stats();
      for (const KvWorkerStats& worker : stats.workers) {
        EXPECT_EQ(worker.pushes, kSteps);
        EXPECT_EQ(worker.joins, 1);
        EXPECT_TRUE(worker.done);
      }
      EXPECT_EQ(stats.global_step, kSteps * shape.workers);
      EXPECT_EQ(stats.duplicates, 0);
      EXPECT_GT(stats.bytes_received, stats.parameter_bytes * kSteps * shape.workers);
    }
    servers_.clear();
    addresses_.clear();
    for (std::thread& thread : server_threads_) thread.join();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, SyncGivesTheSameBitsWhicheverWorkerPushesFirst) {
  const std::string expected = TrainLocally(3, 1).parameters.Sha256Hex();
  for (const std::vector<int>& order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 2, 0}}) {
    StartServers(1, 3, KvMode::kSync);
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (int w = 0; w < 3; ++w) workers.push_back(std::make_unique<TestWorker>(MakeClient(ClientOptions(w, 3, KvMode::kSync)), w));
    for (auto& worker : workers) ASSERT_TRUE(worker->Start().ok());
    for (const int w : order) workers[w]->Push(/*forwards=*/w == 1);
    for (auto& worker : workers) {
      ASSERT_TRUE(worker->Wait().ok());
      EXPECT_EQ(worker->parameters().Sha256Hex(), expected);
    }
    for (auto& worker : workers) worker->client().Done();
    EXPECT_TRUE(AwaitServerEnd(0).ok());
    servers_.clear();
    server_threads_[0].join();
    server_threads_.clear();
    addresses_.clear();
  }
}

TEST_P(KvstoreTest, AWorkerThatLeavesSyncTrainingHoldsUpNobody) {
  StartServers(2, 2, KvMode::kSync);
  TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kSync)), 0);
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other.Start().ok());
  chief.Push();
  other.Push();
  ASSERT_TRUE(other.Wait().ok());
  ASSERT_TRUE(chief.Wait().ok());
  chief.Push();
  other.client().Done();
  ASSERT_TRUE(chief.Wait().ok());
  EXPECT_TRUE(chief.client().AwaitOthers(absl::Seconds(30)).ok());
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
  EXPECT_TRUE(AwaitServerEnd(1).ok());
}

TEST_P(KvstoreTest, AKilledWorkerResumesWhereTheServersTell) {
  for (const KvMode mode : {KvMode::kSync, KvMode::kAsync}) {
    SCOPED_TRACE(KvModeName(mode));
    StartServers(2, 2, mode);
    TestWorker chief(MakeClient(ClientOptions(0, 2, mode)), 0);
    ASSERT_TRUE(chief.Start().ok());
    {
      TestWorker killed(MakeClient(ClientOptions(1, 2, mode)), 1);
      ASSERT_TRUE(killed.Start().ok());
      chief.Push();
      killed.Push();
      ASSERT_TRUE(killed.Wait().ok());
      ASSERT_TRUE(chief.Wait().ok());
      killed.Push();  // and dies before any answer
    }
    TestWorker restarted(MakeClient(ClientOptions(1, 2, mode)), 1);
    ASSERT_TRUE(restarted.Start().ok());
    EXPECT_TRUE(restarted.start().joined);
    EXPECT_GE(restarted.step(), 1);
    EXPECT_LE(restarted.step(), 2);
    std::thread thread([&] {
      EXPECT_TRUE(restarted.Train(4).ok());
      restarted.client().Done();
    });
    EXPECT_TRUE(chief.Train(4).ok());
    chief.client().Done();
    thread.join();
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(AwaitServerEnd(i).ok());
      EXPECT_EQ(servers_[i]->stats().workers[1].pushes, 4);
      EXPECT_EQ(servers_[i]->stats().workers[1].joins, 2);
    }
    servers_.clear();
    addresses_.clear();
    for (std::thread& server : server_threads_) server.join();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, AKilledChiefTakesParametersAndStepFromLiveServers) {
  StartServers(1, 1, KvMode::kSync);
  {
    TestWorker killed(MakeClient(ClientOptions(0, 1, KvMode::kSync)), 0);
    ASSERT_TRUE(killed.Start().ok());
    ASSERT_TRUE(killed.Train(2).ok());
  }
  TestWorker restarted(MakeClient(ClientOptions(0, 1, KvMode::kSync)), 0);
  ASSERT_TRUE(restarted.Start().ok());
  EXPECT_TRUE(restarted.start().joined);
  EXPECT_EQ(restarted.step(), 2);
  ASSERT_TRUE(restarted.Train(kSteps).ok());
  EXPECT_EQ(restarted.parameters().Sha256Hex(), TrainLocally(1, kSteps).parameters.Sha256Hex());
  restarted.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

TEST_P(KvstoreTest, ALostServerIsRefilledByTheChiefAndTrainingGoesOn) {
  for (const KvMode mode : {KvMode::kSync, KvMode::kAsync}) {
    SCOPED_TRACE(KvModeName(mode));
    StartServers(2, 2, mode);
    TestWorker chief(MakeClient(ClientOptions(0, 2, mode)), 0);
    TestWorker other(MakeClient(ClientOptions(1, 2, mode)), 1);
    ASSERT_TRUE(chief.Start().ok());
    ASSERT_TRUE(other.Start().ok());
    chief.Push();
    other.Push();
    ASSERT_TRUE(chief.Wait().ok());
    ASSERT_TRUE(other.Wait().ok());
    KvServerOptions again = ServerOptions(1, 2, 2, mode);
    again.address = addresses_[1];
    chief.Push();
    LoseServer(1);
    StartServer(again);
    int refilled = 0;
    std::thread thread([&] {
      EXPECT_TRUE(other.Train(5).ok());
      other.client().Done();
    });
    while (chief.step() < 5) {
      const absl::Status status = chief.Wait();
      ASSERT_TRUE(status.ok()) << status;
      refilled += chief.result().refilled;
      if (chief.step() < 5) chief.Push();
    }
    chief.client().Done();
    thread.join();
    EXPECT_GE(refilled, 1);
    EXPECT_TRUE(AwaitServerEnd(0).ok());
    EXPECT_TRUE(AwaitServerEnd(1).ok());
    servers_.clear();
    addresses_.clear();
    for (std::thread& server : server_threads_) server.join();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, TheOnlyServerLostIsRefilledAndStepsGoOn) {
  StartServers(1, 1, KvMode::kSync);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kSync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(chief.Train(3).ok());
  KvServerOptions again = ServerOptions(0, 1, 1, KvMode::kSync);
  again.address = addresses_[0];
  LoseServer(0);
  StartServer(again);
  ASSERT_TRUE(chief.Train(4).ok());
  EXPECT_EQ(chief.result().refilled, 1);
  EXPECT_EQ(chief.result().lost_steps, 3);
  EXPECT_EQ(chief.result().global_step, 4);
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

TEST_P(KvstoreTest, AMissingWorkerIsNamedToEveryoneWithinTheDeadline) {
  KvServerOptions options = ServerOptions(0, 1, 3, KvMode::kSync);
  options.wait_deadline = absl::Milliseconds(400);
  StartServer(options);
  TestWorker chief(MakeClient(ClientOptions(0, 3, KvMode::kSync)), 0);
  TestWorker other(MakeClient(ClientOptions(1, 3, KvMode::kSync)), 1);
  TestWorker silent(MakeClient(ClientOptions(2, 3, KvMode::kSync)), 2);
  for (TestWorker* worker : {&chief, &other, &silent}) ASSERT_TRUE(worker->Start().ok());
  chief.Push();
  other.Push();
  silent.Kill();
  for (TestWorker* worker : {&chief, &other}) {
    const absl::Status status = worker->Wait();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("server 0"), HasSubstr("step 0"), HasSubstr("/kernel"), HasSubstr("worker 2 (lost for")));
  }
}

// Moves by hand.
class HandClock final : public Clock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }
  void SleepFor(absl::Duration duration) override { Advance(duration); }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    now_ += duration;
  }

 private:
  absl::Mutex mutex_;
  absl::Time now_ ABSL_GUARDED_BY(mutex_) = absl::UnixEpoch();
};

bool Becomes(const std::function<bool()>& condition) {
  for (const absl::Time end = absl::Now() + absl::Seconds(30); absl::Now() < end; absl::SleepFor(absl::Milliseconds(1))) {
    if (condition()) return true;
  }
  return false;
}

TEST_P(KvstoreTest, AWorkerThatIsAtWorkOnSomethingElseIsWaitedForBeyondTheDeadlineAndOneThatIsStuckIsNot) {
  HandClock clock;
  KvServerOptions options = ServerOptions(0, 1, 2, KvMode::kSync);
  options.wait_deadline = absl::Seconds(60);
  options.liveness_deadline = absl::Seconds(4);
  options.clock = &clock;
  StartServer(options);
  const auto make = [&](int index) {
    KvClientOptions client = ClientOptions(index, 2, KvMode::kSync);
    client.wait_deadline = absl::Seconds(60);
    client.heartbeat_period = absl::Milliseconds(10);
    client.clock = &clock;
    return MakeClient(client);
  };
  TestWorker chief(make(0), 0);
  TestWorker other(make(1), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other.Start().ok());
  other.Push();
  absl::Status waited;
  std::thread waiting([&] { waited = other.Wait(); });
  // The chief evaluates for 160 s.
  for (uint64_t batch = 1; batch <= 4; ++batch) {
    clock.Advance(absl::Seconds(40));
    chief.client().ShowActivity();
    EXPECT_TRUE(Becomes([&] { return servers_[0]->stats().workers[0].activity == batch; }));
    const int64_t heard = other.client().bytes_received();
    EXPECT_TRUE(Becomes([&] { return other.client().bytes_received() > heard; })) << "the worker is not told that it waits for the chief";
  }
  chief.Push();
  EXPECT_TRUE(chief.Wait().ok());
  waiting.join();
  EXPECT_TRUE(waited.ok()) << waited;

  other.Push();
  std::thread waiting_again([&] { waited = other.Wait(); });
  EXPECT_TRUE(Becomes([&] { return servers_[0]->stats().workers[1].pushes == 1 && servers_[0]->stats().bytes_received > 0; }));
  const int64_t heard = other.client().bytes_received();
  EXPECT_TRUE(Becomes([&] { return other.client().bytes_received() > heard; }));  // the round is open
  clock.Advance(absl::Seconds(49));
  waiting_again.join();
  EXPECT_EQ(waited.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(waited.message()), HasSubstr("worker 0 (connected, but has neither pushed nor done anything else"));
}

TEST_P(KvstoreTest, SyncWorkersEndAtExactlyTheStepThatTheChiefSays) {
  constexpr int kWorkers = 3;
  StartServers(2, kWorkers, KvMode::kSync);
  TestWorker chief(MakeClient(ClientOptions(0, kWorkers, KvMode::kSync)), 0);
  TestWorker early(MakeClient(ClientOptions(1, kWorkers, KvMode::kSync)), 1);
  TestWorker late(MakeClient(ClientOptions(2, kWorkers, KvMode::kSync)), 2);
  for (TestWorker* worker : {&chief, &early, &late}) ASSERT_TRUE(worker->Start().ok());
  for (int step = 0; step < 2; ++step) {
    for (TestWorker* worker : {&chief, &early, &late}) worker->Push();
    for (TestWorker* worker : {&chief, &early, &late}) ASSERT_TRUE(worker->Wait().ok());
  }
  early.Push();  // is in the next step already
  ASSERT_TRUE(chief.client().End(2).ok());
  late.Push();  // comes to it after the end
  const std::string digest = TrainLocally(kWorkers, 2).parameters.Sha256Hex();
  for (TestWorker* worker : {&early, &late}) {
    ASSERT_TRUE(worker->Wait().ok());
    EXPECT_TRUE(worker->result().ended);
    EXPECT_EQ(worker->result().global_step, 2);
    EXPECT_EQ(worker->parameters().Sha256Hex(), digest);
  }
  // One that is restarted hears of it as well.
  late.Kill();
  TestWorker again(MakeClient(ClientOptions(2, kWorkers, KvMode::kSync)), 2);
  ASSERT_TRUE(again.Start().ok());
  EXPECT_TRUE(again.start().ended);
  EXPECT_EQ(again.start().worker_step, 2);
  early.client().Done();
  again.client().Done();
  chief.client().Leave();
  EXPECT_TRUE(chief.client().AwaitOthers(absl::Seconds(30)).ok());
  const absl::StatusOr<KvState> state = chief.client().Pull(/*with_slots=*/false);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 2);
  EXPECT_EQ(state->parameters.Sha256Hex(), digest);
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
  EXPECT_TRUE(AwaitServerEnd(1).ok());
}

TEST_P(KvstoreTest, AsyncWorkersHearOfTheEndSoon) {
  StartServers(1, 2, KvMode::kAsync);
  TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kAsync)), 0);
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kAsync)), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other.Start().ok());
  ASSERT_TRUE(other.Train(1).ok());
  EXPECT_FALSE(other.result().ended);
  ASSERT_TRUE(chief.client().End(1).ok());
  while (!other.result().ended && other.step() < 1000) ASSERT_TRUE(other.Train(other.step() + 1).ok());
  EXPECT_TRUE(other.result().ended);
  EXPECT_EQ(other.result().global_step, other.step());
}

TEST_P(KvstoreTest, AServerThatNeverAnswersIsNamedWithinTheDeadline) {
  StartServers(1, 1, KvMode::kAsync);
  KvClientOptions options = ClientOptions(0, 1, KvMode::kAsync);
  options.servers = {addresses_[0] + "9999999"};
  options.connect_deadline = absl::Milliseconds(200);
  TestWorker chief(MakeClient(options), 0);
  const absl::Status status = chief.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker 0"), HasSubstr("server 0 (" + options.servers[0] + ")")));
}

TEST_P(KvstoreTest, WorkersWaitForTheChiefOnlyUntilTheDeadline) {
  StartServers(1, 2, KvMode::kAsync);
  KvClientOptions options = ClientOptions(1, 2, KvMode::kAsync);
  options.connect_deadline = absl::Milliseconds(200);
  TestWorker worker(MakeClient(options), 1);
  const absl::Status status = worker.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("server 0"), HasSubstr("the chief has not initialised it")));
}

TEST_P(KvstoreTest, WhatDoesNotAgreeIsRefusedByName) {
  StartServers(1, 1, KvMode::kSync);
  struct Case {
    std::string what;
    std::function<void(KvClientOptions&)> change;
    std::string expected;
  };
  const Case cases[] = {
      {"mode", [](KvClientOptions& options) { options.mode = KvMode::kAsync; }, "server 0 has sync, worker 0 has async"},
      {"workers", [](KvClientOptions& options) { options.workers = 4; }, "the number of workers differs: server 0 has 1, worker 0 has 4"},
      {"shape", [](KvClientOptions& options) { options.specs[1].shape = Shape({8}); },
       "'conv/bias F32 [7]', worker 0 has 'conv/bias F32 [8]'"},
      {"tensors", [](KvClientOptions& options) { options.specs.pop_back(); },
       "the number of tensors differs: server 0 has 4, worker 0 has 3"},
      {"slots", [](KvClientOptions& options) { options.slot_names = {}; }, "[momentum]"},
      {"servers", [](KvClientOptions& options) { options.servers.push_back(options.servers[0]); }, "the number of servers differs"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.what);
    KvClientOptions options = ClientOptions(0, 1, KvMode::kSync);
    test.change(options);
    const std::unique_ptr<KvClient> client = MakeClient(options);
    ParameterSet parameters(options.specs);
    const absl::Status status = client->Start(parameters).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.expected));
  }
}

TEST_P(KvstoreTest, AWorkerWithAnotherVocabularyIsRefusedAndBothAreNamed) {
  StartServers(1, 2, KvMode::kAsync);
  const auto options_with = [&](int worker, const std::string& vocabulary) {
    KvClientOptions options = ClientOptions(worker, 2, KvMode::kAsync);
    options.vocabulary = vocabulary;
    return options;
  };
  const auto refusal = [&](int worker, const std::string& vocabulary) {
    TestWorker refused(MakeClient(options_with(worker, vocabulary)), worker);
    const absl::Status status = refused.Start();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  };
  TestWorker chief(MakeClient(options_with(0, "9 words (SHA-256 aa)")), 0);
  ASSERT_TRUE(chief.Start().ok());
  EXPECT_THAT(refusal(1, "9 words (SHA-256 bb)"),
              HasSubstr("worker 0 has 9 words (SHA-256 aa), worker 1 has 9 words (SHA-256 bb); it is made of the training text"));
  EXPECT_THAT(refusal(1, ""), HasSubstr("worker 1 has none"));
  chief.Kill();  // the parameters stay, and with them what their rows mean
  EXPECT_THAT(refusal(1, "9 words (SHA-256 bb)"), HasSubstr("the training as begun by worker 0 has 9 words (SHA-256 aa)"));
  TestWorker other(MakeClient(options_with(1, "9 words (SHA-256 aa)")), 1);
  EXPECT_TRUE(other.Start().ok());
  EXPECT_TRUE(other.Train(2).ok());
}

TEST_P(KvstoreTest, BeforeTheTrainingBeginsAWorkerThatIsGoneDoesNotChooseTheVocabulary) {
  StartServers(1, 2, KvMode::kAsync);
  KvClientOptions wrong = ClientOptions(1, 2, KvMode::kAsync);
  wrong.vocabulary = "wrong";
  wrong.connect_deadline = absl::Milliseconds(200);
  TestWorker early(MakeClient(wrong), 1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(early.Start())) << "it waits for the chief";
  KvClientOptions right = ClientOptions(0, 2, KvMode::kAsync);
  right.vocabulary = "right";
  {
    TestWorker chief(MakeClient(right), 0);
    EXPECT_THAT(std::string(chief.Start().message()), HasSubstr("worker 1 has wrong, worker 0 has right"));
  }
  early.Kill();
  absl::Status started;
  for (const absl::Time end = absl::Now() + absl::Seconds(10); absl::Now() < end;) {  // until the server has seen that it is gone
    TestWorker chief(MakeClient(right), 0);
    started = chief.Start();
    if (started.ok()) break;
  }
  EXPECT_TRUE(started.ok()) << started;
}

TEST_P(KvstoreTest, AnAsyncJobTakesAWorkerThatItWasScaledUpByWhereTheOthersAre) {
  StartServers(1, 1, KvMode::kAsync);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(chief.Train(5).ok());
  const std::unique_ptr<KvClient> client = MakeClient(ClientOptions(2, 3, KvMode::kAsync));
  ParameterSet parameters(TestSpecs());
  const absl::StatusOr<KvStart> start = client->Start(parameters);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->worker_step, 5);
  client->Done();
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

TEST_P(KvstoreTest, OfTwoProcessesWithOneIndexTheOlderIsTold) {
  StartServers(1, 1, KvMode::kAsync);
  TestWorker first(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(first.Start().ok());
  TestWorker second(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(second.Start().ok());
  first.Push();
  const absl::Status status = first.Wait();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another process said it is worker 0"));
  ASSERT_TRUE(second.Train(2).ok());
}

TEST_P(KvstoreTest, AnObserverReadsWithoutTakingPart) {
  StartServers(2, 1, KvMode::kSync);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kSync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(chief.Train(2).ok());
  KvClientOptions options = ClientOptions(0, 1, KvMode::kSync);
  options.worker = kObserver;
  options.chief = false;
  TestWorker observer(MakeClient(options), 0);
  ASSERT_TRUE(observer.Start().ok());
  EXPECT_EQ(observer.parameters().Sha256Hex(), chief.parameters().Sha256Hex());
  ASSERT_TRUE(chief.Train(3).ok());
  const absl::StatusOr<KvState> state = observer.client().Pull(/*with_slots=*/true);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->parameters.Sha256Hex(), chief.parameters().Sha256Hex());
  EXPECT_EQ(state->step, 3);
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
  EXPECT_TRUE(AwaitServerEnd(1).ok());
}

TEST_P(KvstoreTest, TheEndDoesNotWaitForeverForALostWorker) {
  KvServerOptions options = ServerOptions(0, 1, 2, KvMode::kAsync);
  options.rejoin_deadline = absl::Milliseconds(200);
  options.liveness_deadline = absl::Milliseconds(200);
  StartServer(options);
  TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(chief.Train(1).ok());
  chief.client().Leave();
  EXPECT_TRUE(chief.client().AwaitOthers(absl::Seconds(30)).ok());
  chief.client().Done();
  const absl::Status status = AwaitServerEnd(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("worker 1 (never came)"));
}

// Speaks to a server without a client's manners.
class RawPeer final : public LaneHandler {
 public:
  void OnMessage(const std::shared_ptr<Lane>& /*lane*/, std::span<Record> /*records*/) override {}
  void OnClosed(const std::shared_ptr<Lane>& /*lane*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    closed_ = true;
  }
  absl::Status AwaitClosed() {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&closed_), absl::Seconds(30)) ? status_ : absl::InternalError("never closed");
  }

 private:
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

TEST_P(KvstoreTest, WhatMakesNoSenseIsRefusedAndTheOthersGoOn) {
  StartServers(1, 1, KvMode::kAsync);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  struct Case {
    WireOp op;
    std::string payload;
    std::string expected;
  };
  const Case cases[] = {
      {WireOp::kPush, "", "the first record must be 'hello', found 'push'"},
      {WireOp::kHello, "\xff\xfe not json", "not a JSON object"},
      {WireOp::kHello, R"({"mode": "sync"})", "field 'placement' is missing"},
      {WireOp::kHello, R"({"mode": "sync", "placement": "0", "workers": "two"})", "field 'workers'"},
      {WireOp::kHello, std::string(100'000, '['), "not a JSON object"},
      {WireOp::kParameters, "", "the first record must be 'hello'"},
  };
  for (const Case& test : cases) {
    const auto peer = std::make_shared<RawPeer>();
    const std::shared_ptr<Lane> lane = transport_->Dial(addresses_[0], peer, absl::Seconds(5));
    Record record;
    record.header.op = test.op;
    record.payload = Payload::OfText(test.payload);
    record.header.length = static_cast<uint32_t>(record.payload.size());
    lane->Send({record});
    EXPECT_THAT(std::string(peer->AwaitClosed().message()), HasSubstr(test.expected));
  }
  ASSERT_TRUE(chief.Train(1).ok());
}

TEST_P(KvstoreTest, WhoOpensALaneAndSaysNothingIsTurnedAway) {
  KvServerOptions options = ServerOptions(0, 1, 1, KvMode::kAsync);
  options.hello_deadline = absl::Milliseconds(100);
  StartServer(options);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  const auto silent = std::make_shared<RawPeer>();
  const std::shared_ptr<Lane> lane = transport_->Dial(addresses_[0], silent, absl::Seconds(5));
  const absl::Status status = silent->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server 0: no 'hello' within 100ms"));
  EXPECT_TRUE(chief.Train(2).ok()) << "who has said it stays";
}

INSTANTIATE_TEST_SUITE_P(
    All, KvstoreTest,
    ::testing::Values(TransportKind{"Inproc", &MakeInprocTransport, +[](int server) { return "ps-" + std::to_string(server); }},
                      TransportKind{"Grpc", +[] { return MakeGrpcTransport(); }, +[](int) { return std::string("127.0.0.1:0"); }},
                      TransportKind{"GrpcWithThreads", +[] { return MakeGrpcTransport({.io_threads = 2}); },
                                    +[](int) { return std::string("127.0.0.1:0"); }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainyard::engine
