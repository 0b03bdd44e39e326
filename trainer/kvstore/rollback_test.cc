// Synchronous jobs that lose workers and servers: the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "trainer/kvstore/test_cluster.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST_P(KvstoreTest, SyncWaitsForAWorkerThatIsGoneAndEndsWithTheSameBits) {
  StartServers(2, 2, KvMode::kSync);
  TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kSync)), 0);
  auto other = std::make_unique<TestWorker>(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other->Start().ok());
  TrainAll({&chief, other.get()}, 2);
  other->Kill();
  std::thread alone([&] { EXPECT_TRUE(chief.Train(4).ok()); });
  other = std::make_unique<TestWorker>(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
  ASSERT_TRUE(other->Start().ok());
  EXPECT_EQ(other->step(), 2) << "no round was done without it";
  TrainAll({other.get()}, 4);
  alone.join();
  EXPECT_EQ(chief.rollbacks(), 0) << "nothing was torn";
  EXPECT_EQ(chief.parameters().Sha256Hex(), TrainLocally(2, 4).parameters.Sha256Hex());
}

TEST_P(KvstoreTest, ASyncServerThatLosesItsStateTakesAllServersBackToOneCheckpoint) {
  for (const int64_t checkpoint : {0, 2}) {
    SCOPED_TRACE(checkpoint);
    StartServers(2, 2, KvMode::kSync);
    KvClientOptions options = ClientOptions(0, 2, KvMode::kSync);
    options.load = [checkpoint](bool again) { return again ? TrainLocally(2, checkpoint) : StartState(TestSpecs()); };
    TestWorker chief(MakeClient(options), 0);
    TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
    ASSERT_TRUE(chief.Start().ok());
    ASSERT_TRUE(other.Start().ok());
    TrainAll({&chief, &other}, 3);
    KvServerOptions again = ServerOptions(1, 2, 2, KvMode::kSync);
    again.address = addresses_[1];
    LoseServer(1);
    StartServer(again);
    TrainAll({&chief, &other}, 5);
    const TrainingState expected = TrainLocally(2, 5);
    EXPECT_EQ(chief.parameters().Sha256Hex(), expected.parameters.Sha256Hex());
    EXPECT_EQ(other.parameters().Sha256Hex(), expected.parameters.Sha256Hex());
    const absl::StatusOr<TrainingState> state = chief.client().Pull(/*with_slots=*/true);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(state->slots[0].Sha256Hex(), expected.slots[0].Sha256Hex());
    EXPECT_EQ(chief.rollbacks(), 1);
    EXPECT_EQ(other.rollbacks(), 1);
    ASSERT_EQ(chief.redone().size(), 1U);
    EXPECT_EQ(chief.redone()[0].from, checkpoint);
    EXPECT_EQ(chief.redone()[0].to, 3);
    EXPECT_THAT(chief.redone()[0].reason, HasSubstr("server 1 (" + addresses_[1] + ") was restarted"));
    chief.client().Done();
    other.client().Done();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(AwaitServerEnd(i).ok());
    servers_.clear();
    addresses_.clear();
    for (std::thread& server : server_threads_) server.join();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, AWorkerOrChiefThatIsKilledInTheMiddleOfItsPushesChangesNoBits) {
  for (const int killed : {0, 1}) {
    SCOPED_TRACE(killed);
    StartServers(2, 2, KvMode::kSync);
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (int w = 0; w < 2; ++w) workers.push_back(std::make_unique<TestWorker>(MakeClient(ClientOptions(w, 2, KvMode::kSync)), w));
    for (auto& worker : workers) ASSERT_TRUE(worker->Start().ok());
    TrainAll({workers[0].get(), workers[1].get()}, 2);
    TestWorker& lives = *workers[1 - killed];
    lives.Push();
    workers[killed]->PushOneKey();
    // The part is in the next round, all others are not.
    KvClientOptions observer = ClientOptions(0, 2, KvMode::kSync);
    observer.worker = kObserver;
    observer.chief = false;
    TestWorker watch(MakeClient(observer), 0);
    ASSERT_TRUE(watch.Start().ok());
    const float before = workers[killed]->parameters().values(0)[0];
    ASSERT_TRUE(Becomes([&] { return watch.client().Pull(/*with_slots=*/false)->parameters.values(0)[0] != before; }));
    workers[killed]->Kill();
    std::thread other([&] {
      EXPECT_TRUE(lives.Wait().ok() || lives.GoBack().ok());
      EXPECT_TRUE(lives.Train(4).ok());
    });
    workers[killed] = std::make_unique<TestWorker>(MakeClient(ClientOptions(killed, 2, KvMode::kSync)), killed);
    ASSERT_TRUE(workers[killed]->Start().ok());
    EXPECT_EQ(workers[killed]->step(), 0) << "one part is a round further than the others: back to the start values";
    EXPECT_TRUE(workers[killed]->Train(4).ok());
    other.join();
    const std::string expected = TrainLocally(2, 4).parameters.Sha256Hex();
    for (auto& worker : workers) EXPECT_EQ(worker->parameters().Sha256Hex(), expected);
    workers.clear();
    servers_[0]->Stop();
    servers_[1]->Stop();
    for (std::thread& server : server_threads_) server.join();
    servers_.clear();
    addresses_.clear();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, AServerThatIsLostDuringARollbackIsPartOfIt) {
  StartServers(2, 2, KvMode::kSync);
  int loads = 0;
  KvClientOptions options = ClientOptions(0, 2, KvMode::kSync);
  options.load = [&](bool) {
    if (++loads == 2) {  // the first rollback is about to fill both
      KvServerOptions again = ServerOptions(0, 2, 2, KvMode::kSync);
      again.address = addresses_[0];
      LoseServer(0);
      StartServer(again);
    }
    return StartState(TestSpecs());
  };
  TestWorker chief(MakeClient(options), 0);
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other.Start().ok());
  TrainAll({&chief, &other}, 3);
  KvServerOptions again = ServerOptions(1, 2, 2, KvMode::kSync);
  again.address = addresses_[1];
  LoseServer(1);
  StartServer(again);
  TrainAll({&chief, &other}, 5);
  EXPECT_GE(loads, 2);
  EXPECT_EQ(other.parameters().Sha256Hex(), TrainLocally(2, 5).parameters.Sha256Hex());
}

TEST_P(KvstoreTest, AServerThatIsAwayForTenMinutesCostsNoRestartOfAWorker) {
  KvServerOptions server = ServerOptions(0, 1, 1, KvMode::kSync);
  server.timeouts = {};
  StartServer(server);
  KvClientOptions options = ClientOptions(0, 1, KvMode::kSync);
  options.timeouts = {};
  options.clock = &clock_;
  TestWorker chief(MakeClient(options), 0);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(chief.Train(2).ok());
  LoseServer(0);
  std::thread training([&] { EXPECT_TRUE(chief.Train(4).ok()); });
  clock_.Advance(absl::Minutes(5));
  clock_.Advance(absl::Minutes(5));
  server.address = addresses_[0];
  StartServer(server);
  training.join();
  EXPECT_EQ(chief.parameters().Sha256Hex(), TrainLocally(1, 4).parameters.Sha256Hex());
}

TEST_P(KvstoreTest, AWorkerThatCrashesAgainAndAgainIsWaitedForNoLongerThanOneThatIsGone) {
  KvServerOptions server = ServerOptions(0, 1, 2, KvMode::kSync);
  server.timeouts = {.peer = absl::Seconds(60), .silence = absl::Seconds(4)};
  server.clock = &clock_;
  StartServer(server);
  KvClientOptions options = ClientOptions(0, 2, KvMode::kSync);
  options.timeouts.peer = absl::Hours(1);
  TestWorker chief(MakeClient(options), 0);
  ASSERT_TRUE(chief.Start().ok());
  chief.Push();
  absl::Status waited;
  std::thread waiting([&] { waited = chief.Wait(); });
  const int64_t gradients = servers_[0]->stats().parameter_bytes;
  ASSERT_TRUE(Becomes([&] { return servers_[0]->stats().bytes_received > gradients; }));
  const int64_t heard = chief.client().bytes_received();
  ASSERT_TRUE(Becomes([&] { return chief.client().bytes_received() > heard; })) << "the round is open";
  for (int crash = 1; crash <= 3; ++crash) {
    clock_.Advance(absl::Seconds(25));
    KvClientOptions crashing = ClientOptions(1, 2, KvMode::kSync);
    crashing.heartbeat_period = absl::Milliseconds(10);
    TestWorker other(MakeClient(crashing), 1);
    other.client().ShowActivity();
    const bool came = Becomes([&] { return servers_[0]->stats().workers[1].joins >= crash; });
    EXPECT_TRUE(came);
  }
  waiting.join();
  EXPECT_EQ(waited.code(), absl::StatusCode::kDeadlineExceeded) << waited;
  EXPECT_THAT(std::string(waited.message()), HasSubstr("worker 1"));
}

}  // namespace
}  // namespace trainyard::engine
