// Results and exactness, in every mode and cluster shape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "trainer/kvstore/test_cluster.h"

namespace trainyard::engine {
namespace {

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
    const TrainingState expected = TrainLocally(shape.workers, kSteps);
    std::vector<std::string> hashes(shape.workers);
    TrainingState pulled;
    std::vector<std::thread> threads;
    for (int w = 0; w < shape.workers; ++w) {
      threads.emplace_back([&, w] {
        TestWorker worker(MakeClient(ClientOptions(w, shape.workers, KvMode::kSync)), w);
        EXPECT_TRUE(worker.Start().ok());
        EXPECT_TRUE(worker.Train(kSteps).ok());
        EXPECT_EQ(worker.result().global_step, kSteps);
        hashes[w] = worker.parameters().Sha256Hex();
        if (w == 0) {
          absl::StatusOr<TrainingState> state = worker.client().Pull(/*with_slots=*/true);
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
          absl::StatusOr<TrainingState> state = worker.client().Pull(/*with_slots=*/false);
          EXPECT_TRUE(state.ok());
          EXPECT_EQ(state->step, kSteps * shape.workers);
          hash = state->parameters.Sha256Hex();
        }
        worker.client().Done();
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (shape.workers == 1) {
      EXPECT_EQ(hash, TrainLocally(1, kSteps).parameters.Sha256Hex());
    }
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

TEST_P(KvstoreTest, AnAsyncServerThatLostItsStateGetsTheNewestValuesThatTheChiefHas) {
  StartServers(2, 2, KvMode::kAsync);
  TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kAsync)), 0);
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kAsync)), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other.Start().ok());
  ASSERT_TRUE(other.Train(2).ok());
  ASSERT_TRUE(chief.Train(3).ok());
  const std::string newest = chief.parameters().Sha256Hex();
  KvServerOptions again = ServerOptions(1, 2, 2, KvMode::kAsync);
  again.address = addresses_[1];
  LoseServer(1);
  StartServer(again);
  const absl::StatusOr<TrainingState> state = chief.client().Pull(/*with_slots=*/false);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->parameters.Sha256Hex(), newest) << "not the start values, which load gives";
  EXPECT_EQ(state->step, 5);
  ASSERT_TRUE(chief.Train(4).ok());
  EXPECT_EQ(chief.result().refilled, 1);
  ASSERT_TRUE(other.Train(5).ok());
  chief.client().Done();
  other.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
  EXPECT_TRUE(AwaitServerEnd(1).ok());
}

double DistanceOf(const ParameterSet& a, const ParameterSet& b) {
  double sum = 0;
  for (int key = 0; key < a.size(); ++key) {
    for (size_t i = 0; i < a.values(key).size(); ++i) sum += std::abs(a.values(key)[i] - b.values(key)[i]);
  }
  return sum;
}

TEST_P(KvstoreTest, AnAsyncServerThatIsLostWithTheChiefGetsTheNewestValuesThatAnotherWorkerHas) {
  StartServers(2, 2, KvMode::kAsync);
  auto chief = std::make_unique<TestWorker>(MakeClient(ClientOptions(0, 2, KvMode::kAsync)), 0);
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kAsync)), 1);
  ASSERT_TRUE(chief->Start().ok());
  ASSERT_TRUE(other.Start().ok());
  ASSERT_TRUE(chief->Train(20).ok());
  ASSERT_TRUE(other.Train(20).ok());
  const ParameterSet newest = CopyOf(other.parameters());
  KvServerOptions again = ServerOptions(1, 2, 2, KvMode::kAsync);
  again.address = addresses_[1];
  chief->Kill();
  LoseServer(1);
  StartServer(again);
  chief = std::make_unique<TestWorker>(MakeClient(ClientOptions(0, 2, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief->Start().ok());
  EXPECT_TRUE(chief->start().again);
  ASSERT_TRUE(other.Train(22).ok());  // the second push comes behind the values
  const absl::StatusOr<TrainingState> state = chief->client().Pull(/*with_slots=*/false);
  ASSERT_TRUE(state.ok()) << state.status();
  // Two updates away, not twenty and more.
  EXPECT_LT(DistanceOf(state->parameters, newest), 0.2 * DistanceOf(StartValues(TestSpecs()), newest));
  chief->client().Done();
  other.client().Done();
}

TEST_P(KvstoreTest, AnAsyncJobTakesAWorkerThatItWasScaledUpByWhereTheOthersAre) {
  StartServers(1, 1, KvMode::kAsync);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(chief.Train(5).ok());
  const std::unique_ptr<KvClient> client = MakeClient(ClientOptions(2, 3, KvMode::kAsync));
  ParameterSet parameters(TestSpecs());
  const absl::StatusOr<TrainingStart> start = client->Start(parameters);
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ(start->worker_step, 5);
  EXPECT_TRUE(start->joined);
  EXPECT_FALSE(start->again) << "it was not there before";
  client->Done();
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

TEST_P(KvstoreTest, AnAsyncJobPlansTheStepsOfTheWorkersThatItHas) {
  StartServers(2, 2, KvMode::kAsync);
  const auto worker = [this](int index, int workers, int64_t end) {
    KvClientOptions options = ClientOptions(index, workers, KvMode::kAsync);
    options.end_step = end;
    return std::make_unique<TestWorker>(MakeClient(options), index);
  };
  const std::unique_ptr<TestWorker> chief = worker(0, 2, 10);
  ASSERT_TRUE(chief->Start().ok());
  EXPECT_TRUE(Becomes([&] { return chief->client().planned_steps() == 20; })) << "the second worker has not come yet";
  const std::unique_ptr<TestWorker> second = worker(1, 2, 10);
  ASSERT_TRUE(second->Start().ok());
  TrainAll({chief.get(), second.get()}, 4);
  EXPECT_EQ(chief->client().planned_steps(), 20);
  const std::unique_ptr<TestWorker> third = worker(2, 3, 7);
  ASSERT_TRUE(third->Start().ok());
  EXPECT_TRUE(Becomes([&] { return chief->client().planned_steps() == 23; })) << "the third does steps 4 to 6";
  TrainAll({chief.get(), second.get()}, 10);
  TrainAll({third.get()}, 7);
  EXPECT_EQ(third->client().global_step(), 23);
  for (TestWorker* const each : {third.get(), second.get(), chief.get()}) each->client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

TEST_P(KvstoreTest, StepsOfAnAsyncWorkerThatWasTakenAwayArePlannedNoMore) {
  KvServerOptions server = ServerOptions(0, 1, 2, KvMode::kAsync);
  server.clock = &clock_;
  StartServer(server);
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (int index = 0; index < 2; ++index) {
    KvClientOptions options = ClientOptions(index, 2, KvMode::kAsync);
    options.end_step = 10;
    workers.push_back(std::make_unique<TestWorker>(MakeClient(options), index));
    ASSERT_TRUE(workers[index]->Start().ok());
  }
  ASSERT_TRUE(workers[1]->Train(3).ok());
  workers[1]->client().Done();
  workers[1]->Kill();
  ASSERT_TRUE(workers[0]->Train(2).ok());
  EXPECT_EQ(workers[0]->client().planned_steps(), 20) << "it may come back";
  clock_.Advance(server.timeouts.silence);
  EXPECT_TRUE(Becomes([&] { return workers[0]->client().planned_steps() == 13; }));
  ASSERT_TRUE(workers[0]->Train(10).ok());
  EXPECT_EQ(workers[0]->client().global_step(), 13);
  workers[0]->client().Done();
}

TEST_P(KvstoreTest, AnAsyncServerThatLostItsStateCountsTheStepsThatWorkersHaveDone) {
  StartServers(2, 3, KvMode::kAsync);
  std::vector<std::unique_ptr<TestWorker>> workers;
  for (int index = 0; index < 3; ++index) {
    workers.push_back(std::make_unique<TestWorker>(MakeClient(ClientOptions(index, 3, KvMode::kAsync)), index));
    ASSERT_TRUE(workers[index]->Start().ok());
  }
  // As unequal as can be, and the chief has not heard of the last steps.
  ASSERT_TRUE(workers[0]->Train(1).ok());
  ASSERT_TRUE(workers[1]->Train(9).ok());
  for (const int lost : {0, 1}) {
    LoseServer(lost);
    KvServerOptions options = ServerOptions(lost, 2, 3, KvMode::kAsync);
    options.address = addresses_[lost];
    StartServer(options);
    std::vector<TestWorker*> all;
    for (const std::unique_ptr<TestWorker>& worker : workers) all.push_back(worker.get());
    TrainAll(all, 10 + lost);
  }
  for (const std::unique_ptr<KvServer>& server : servers_) EXPECT_EQ(server->stats().global_step, 33);
  for (const std::unique_ptr<TestWorker>& worker : workers) worker->client().Done();
}

TEST_P(KvstoreTest, TheChiefHearsThroughServer0HowLongEachWorkerTakes) {
  StartServers(2, 3, KvMode::kSync);
  const auto pace = [](int worker) {
    return WorkerPace{.worker = worker, .step = absl::Milliseconds(10 + worker), .node = "node-" + std::to_string(worker)};
  };
  std::vector<std::unique_ptr<KvClient>> clients;
  for (int worker = 0; worker < 3; ++worker) {
    KvClientOptions options = ClientOptions(worker, 3, KvMode::kSync);
    options.heartbeat_period = absl::Milliseconds(20);
    clients.push_back(MakeClient(options));
    clients.back()->TellPace(pace(worker));
  }
  EXPECT_TRUE(Becomes([&] { return clients[0]->paces().size() == 3; }));
  EXPECT_THAT(clients[0]->paces(), ::testing::ElementsAre(pace(0), pace(1), pace(2)));
  EXPECT_THAT(clients[1]->paces(), ::testing::IsEmpty());
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
  const absl::StatusOr<TrainingState> state = observer.client().Pull(/*with_slots=*/true);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->parameters.Sha256Hex(), chief.parameters().Sha256Hex());
  EXPECT_EQ(state->step, 3);
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
  EXPECT_TRUE(AwaitServerEnd(1).ok());
}

// 16 tensors of 1 MiB, over windows of 1 MiB.
std::vector<ParameterSpec> BigSpecs() {
  std::vector<ParameterSpec> specs;
  for (int i = 0; i < 16; ++i) specs.push_back({.name = "layer" + std::to_string(i) + "/kernel", .shape = Shape({512, 512})});
  return specs;
}

TEST_P(KvstoreTest, AModelLargerThanEveryWindowTrainsInBothModes) {
  for (const KvMode mode : {KvMode::kSync, KvMode::kAsync}) {
    for (const bool same_order : {true, false}) {
      KvServerOptions options = ServerOptions(0, 1, 2, mode);
      options.specs = BigSpecs();
      options.placement = {};
      options.held_bytes = 1;
      options.timeouts.hello = absl::Milliseconds(500);  // rounds are looked at every eighth of it
      StartServer(options);
      std::vector<std::thread> threads;
      for (int w = 0; w < 2; ++w) {
        threads.emplace_back([&, w] {
          KvClientOptions client = ClientOptions(w, 2, mode);
          client.specs = BigSpecs();
          client.placement = {};
          if (w == 0) client.load = [](bool) { return StartState(BigSpecs()); };
          TestWorker worker(MakeClient(client), w, BigSpecs());
          EXPECT_TRUE(worker.Start().ok());
          for (int step = 0; step < 2; ++step) {
            worker.Push(/*forwards=*/!same_order && w == 1);
            EXPECT_TRUE(worker.Wait().ok());
          }
          worker.client().Done();
        });
      }
      for (std::thread& thread : threads) thread.join();
      EXPECT_TRUE(AwaitServerEnd(0).ok());
      servers_.clear();
      addresses_.clear();
      server_threads_[0].join();
      server_threads_.clear();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, KvstoreTest, ::testing::ValuesIn(kTransportKinds), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainyard::engine
