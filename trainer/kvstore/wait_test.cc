// Waits for other workers: for whom, how long, and how a training ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "trainer/kvstore/members.h"
#include "trainer/kvstore/test_cluster.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_P(KvstoreTest, WorkersEndWhenTheChiefHasReleasedThemAndNotBefore) {
  StartServers(1, 2, KvMode::kSync);
  KvClientOptions options = ClientOptions(0, 2, KvMode::kSync);
  options.load = [](bool again) { return again ? TrainLocally(2, 3) : StartState(TestSpecs()); };  // the last checkpoint
  TestWorker chief(MakeClient(options), 0);
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
  ASSERT_TRUE(chief.Start().ok());
  ASSERT_TRUE(other.Start().ok());
  TrainAll({&chief, &other}, 3);
  KvServerOptions again = ServerOptions(0, 1, 2, KvMode::kSync);
  again.address = addresses_[0];
  std::atomic<bool> ended = false;
  std::thread ending([&] {
    absl::Status status = other.client().AwaitRelease();
    while (IsRolledBack(status) && other.GoBack().ok()) status = other.client().AwaitRelease();
    EXPECT_TRUE(status.ok()) << status;
    ended = true;
    other.client().Done();
  });
  LoseServer(0);  // after the last step
  StartServer(again);
  absl::Status released = chief.client().Release();
  EXPECT_TRUE(IsRolledBack(released)) << released;
  EXPECT_FALSE(ended);
  while (IsRolledBack(released) && chief.GoBack().ok()) released = chief.client().Release();
  EXPECT_TRUE(released.ok()) << released;
  ending.join();
  EXPECT_EQ(other.step(), 3);
  EXPECT_EQ(other.parameters().Sha256Hex(), TrainLocally(2, 3).parameters.Sha256Hex());
  EXPECT_TRUE(chief.client().AwaitOthers(absl::Seconds(30)).ok());
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

TEST_P(KvstoreTest, ServersThatAreLostBehindTheLastStepDoNotMakeTheChiefWaitForWorkersThatHaveLeft) {
  for (const int lost : {1, 2}) {
    SCOPED_TRACE(lost);
    for (int i = 0; i < 2; ++i) {
      KvServerOptions options = ServerOptions(i, 2, 2, KvMode::kSync);
      options.clock = &clock_;  // which stands: no worker is ever lost for too long
      StartServer(options);
    }
    TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kSync)), 0);
    TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
    ASSERT_TRUE(chief.Start().ok());
    ASSERT_TRUE(other.Start().ok());
    ASSERT_TRUE(chief.client().Release().ok());
    ASSERT_TRUE(other.client().AwaitRelease().ok());
    EXPECT_FALSE(chief.client().AwaitOthers(absl::ZeroDuration()).ok()) << "it has not left yet";
    other.client().Done();
    for (int i = 0; i < lost; ++i) {
      KvServerOptions again = ServerOptions(i, 2, 2, KvMode::kSync);
      again.address = addresses_[i];
      again.clock = &clock_;
      LoseServer(i);
      StartServer(again);
    }
    absl::Status released;
    ASSERT_TRUE(Becomes([&] { return IsRolledBack(released = chief.client().Release()); }));
    while (IsRolledBack(released) && chief.GoBack().ok()) released = chief.client().Release();
    ASSERT_TRUE(released.ok()) << released;
    // Where no server knows that the worker has left, it may be about to dial.
    if (lost == 2) clock_.Advance(kDialledWithin);
    EXPECT_TRUE(chief.client().AwaitOthers(absl::Seconds(10)).ok());
    chief.client().Done();
    for (auto& server : servers_) server->Stop();
    for (std::thread& server : server_threads_) server.join();
    servers_.clear();
    addresses_.clear();
    server_threads_.clear();
  }
}

TEST_P(KvstoreTest, AWorkerThatIsToldToStopWhileItWaitsForOthersEndsSoon) {
  StartServers(1, 2, KvMode::kSync);
  std::atomic<bool> stop = false;
  KvClientOptions options = ClientOptions(0, 2, KvMode::kSync);
  options.stopping = [&] { return stop.load(); };
  options.timeouts.stop = absl::Milliseconds(200);
  TestWorker chief(MakeClient(options), 0);
  ASSERT_TRUE(chief.Start().ok());
  chief.Push();
  stop = true;
  EXPECT_TRUE(absl::IsCancelled(chief.Wait())) << "worker 1 never came";
  const absl::StatusOr<TrainingState> state = chief.client().Pull(/*with_slots=*/true);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 0) << "the state before the step is whole: a checkpoint can be made of it";
}

TEST_P(KvstoreTest, AMissingWorkerIsNamedToEveryoneWithinTheDeadline) {
  KvServerOptions options = ServerOptions(0, 1, 3, KvMode::kSync);
  options.timeouts.peer = absl::Milliseconds(400);
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

TEST_P(KvstoreTest, AWorkerThatIsAtWorkOnSomethingElseIsWaitedForBeyondTheDeadlineAndOneThatIsStuckIsNot) {
  KvServerOptions options = ServerOptions(0, 1, 2, KvMode::kSync);
  options.timeouts.peer = absl::Seconds(60);
  options.timeouts.silence = absl::Seconds(4);
  options.clock = &clock_;
  StartServer(options);
  const auto make = [&](int index) {
    KvClientOptions client = ClientOptions(index, 2, KvMode::kSync);
    client.timeouts.peer = absl::Minutes(10);
    client.heartbeat_period = absl::Milliseconds(10);
    client.clock = &clock_;
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
    clock_.Advance(absl::Seconds(40));
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
  clock_.Advance(absl::Seconds(61));
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
  const absl::StatusOr<TrainingState> state = chief.client().Pull(/*with_slots=*/false);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->step, 2);
  EXPECT_EQ(state->parameters.Sha256Hex(), digest);
  chief.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
  EXPECT_TRUE(AwaitServerEnd(1).ok());
}

TEST_P(KvstoreTest, AStepBeforeTheEndCountsForAWorkerThatHearsOfTheEndWhileItWaitsForIt) {
  StartServers(2, 2, KvMode::kSync);
  TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kSync)), 0);
  TestWorker slow(MakeClient(ClientOptions(1, 2, KvMode::kSync)), 1);
  for (TestWorker* worker : {&chief, &slow}) ASSERT_TRUE(worker->Start().ok());
  for (TestWorker* worker : {&chief, &slow}) worker->Push();
  ASSERT_TRUE(chief.Wait().ok());
  ASSERT_TRUE(chief.client().End(1).ok());
  ASSERT_TRUE(slow.client().Pull(/*with_slots=*/false).ok());  // its answer comes behind the news of the end
  ASSERT_TRUE(slow.Wait().ok());
  EXPECT_FALSE(slow.result().ended);
  EXPECT_EQ(slow.result().global_step, 1);
  slow.Push();
  ASSERT_TRUE(slow.Wait().ok());
  EXPECT_TRUE(slow.result().ended);
  EXPECT_EQ(slow.result().global_step, 1);
  EXPECT_EQ(slow.parameters().Sha256Hex(), TrainLocally(2, 1).parameters.Sha256Hex());
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
  options.timeouts.connect = absl::Milliseconds(200);
  TestWorker chief(MakeClient(options), 0);
  const absl::Status status = chief.Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("worker 0"), HasSubstr("server 0 (" + options.servers[0] + ")")));
}

// A listener that takes streams and says nothing, as a frozen host does, or another pod that has
// the address of a server that died.
class Mute final : public StreamHandler {
 public:
  void OnOpened(const std::shared_ptr<Stream>& /*stream*/) override {
    absl::MutexLock lock(&mutex_);
    ++opened_;
  }
  void OnMessage(const std::shared_ptr<Stream>& /*stream*/, std::span<Record> /*records*/) override {}
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& /*status*/) override {}
  bool AwaitStreams(int count) {
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return opened_ >= count; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30));
  }

 private:
  absl::Mutex mutex_;
  int opened_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_P(KvstoreTest, AServerThatTakesTheStreamAndSaysNothingIsDialledAgain) {
  const auto mute = std::make_shared<Mute>();
  const std::unique_ptr<Listener> listener = transport_->Listen(GetParam().address(0), mute).value();
  KvClientOptions options = ClientOptions(0, 1, KvMode::kSync);
  options.servers = {listener->address()};
  options.timeouts.silence = absl::Milliseconds(100);
  options.timeouts.connect = absl::Seconds(60);
  std::atomic<bool> stopping = false;
  options.stopping = [&stopping] { return stopping.load(); };
  TestWorker worker(MakeClient(options), 0);
  std::thread start([&] { EXPECT_TRUE(absl::IsCancelled(worker.Start())); });
  EXPECT_TRUE(mute->AwaitStreams(3));
  stopping = true;
  start.join();
}

TEST_P(KvstoreTest, WorkersWaitForTheChiefOnlyUntilTheDeadline) {
  StartServers(1, 2, KvMode::kAsync);
  TestWorker worker(MakeClient(WithoutChief(ClientOptions(1, 2, KvMode::kAsync))), 1);
  absl::Status status;
  std::thread start([&] { status = worker.Start(); });
  EndWaitForChief();
  start.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("server 0"), HasSubstr("the chief has not initialised it")));
}

TEST_P(KvstoreTest, AServerThatNobodyIsConnectedToWaitsAsLongAsTheJobLives) {
  KvServerOptions options = ServerOptions(0, 1, 2, KvMode::kAsync);
  options.clock = &clock_;
  StartServer(options);
  clock_.Advance(absl::Hours(10));
  {
    TestWorker chief(MakeClient(ClientOptions(0, 2, KvMode::kAsync)), 0);
    ASSERT_TRUE(chief.Start().ok()) << "the first worker comes late";
    ASSERT_TRUE(chief.Train(1).ok());
    chief.client().Leave();
    EXPECT_TRUE(chief.client().AwaitOthers(absl::Seconds(30)).ok()) << "worker 1 never came";
    chief.client().Done();
  }
  clock_.Advance(absl::Hours(10));
  TestWorker other(MakeClient(ClientOptions(1, 2, KvMode::kAsync)), 1);
  ASSERT_TRUE(other.Start().ok());
  ASSERT_TRUE(other.Train(other.step() + 1).ok());
  other.client().Done();
  EXPECT_TRUE(AwaitServerEnd(0).ok());
}

}  // namespace
}  // namespace trainyard::engine
