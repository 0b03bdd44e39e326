// Servers refuse peers and records that do not fit, by name; the others go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "trainer/base/clock.h"
#include "trainer/kvstore/test_cluster.h"
#include "trainer/optim/optimizer_settings.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

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
      {"devices", [](KvClientOptions& options) { options.devices = 2; },
       "the number of devices of a worker differs: server 0 has 1, worker 0 has 2"},
      {"compression", [](KvClientOptions& options) { options.compression = Compression::kBfloat16; },
       "the strategy's compression differs: server 0 has none, worker 0 has bfloat16; start both with the same job file"},
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

TEST_P(KvstoreTest, AWorkerWithAnotherJobFileIsRefusedByTheSettingThatDiffers) {
  StartServers(1, 2, KvMode::kSync);
  const auto start = [&](int worker, const JobSettings& settings) {
    KvClientOptions options = ClientOptions(worker, 2, KvMode::kSync);
    options.settings = settings;
    TestWorker started(MakeClient(options), worker);
    return std::string(started.Start().message());
  };
  KvClientOptions first = ClientOptions(0, 2, KvMode::kSync);
  first.settings = {{"seed", "1"}, {"data.train", "{}"}};
  TestWorker chief(MakeClient(first), 0);
  ASSERT_TRUE(chief.Start().ok());
  EXPECT_THAT(
      start(1, {{"seed", "2"}, {"data.train", "{}"}}),
      HasSubstr("spec.training.seed differs: the training as begun by worker 0 has 1, worker 1 has 2; start all with the same job"));
  EXPECT_THAT(start(1, {{"seed", "1"}}), HasSubstr("spec.training.data.train differs: the training as begun by worker 0 has {}, worker 1"));
  EXPECT_EQ(start(1, first.settings), "");
  JobSettings other = first.settings;
  for (const auto& setting : OptimizerSettings(TestOptimizer())) other.push_back(setting);
  for (auto& [name, value] : other) {
    if (name == "optimizer.learningRate") value = "77";
  }
  EXPECT_THAT(start(1, other), HasSubstr("spec.training.optimizer.learningRate differs: server 0"));
}

TEST_P(KvstoreTest, BeforeTheTrainingBeginsAWorkerThatIsGoneDoesNotChooseTheVocabulary) {
  StartServers(1, 2, KvMode::kAsync);
  KvClientOptions wrong = ClientOptions(1, 2, KvMode::kAsync);
  wrong.vocabulary = "wrong";
  TestWorker early(MakeClient(WithoutChief(wrong)), 1);
  std::thread start([&] { EXPECT_TRUE(absl::IsDeadlineExceeded(early.Start())) << "it waits for the chief"; });
  EndWaitForChief();
  start.join();
  KvClientOptions right = ClientOptions(0, 2, KvMode::kAsync);
  right.vocabulary = "right";
  {
    TestWorker chief(MakeClient(right), 0);
    EXPECT_THAT(std::string(chief.Start().message()), HasSubstr("worker 1 has wrong, worker 0 has right"));
  }
  early.Kill();
  absl::Status started;
  for (const absl::Time end = RealClock().Now() + absl::Seconds(10);
       RealClock().Now() < end;) {  // until the server has seen that it is gone
    TestWorker chief(MakeClient(right), 0);
    started = chief.Start();
    if (started.ok()) break;
  }
  EXPECT_TRUE(started.ok()) << started;
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

// Speaks to a server without a client's manners.
class RawPeer final : public StreamHandler {
 public:
  void OnMessage(const std::shared_ptr<Stream>& /*stream*/, std::span<Record> /*records*/) override {}
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
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
      {WireOp::kHello, R"({"mode": "sync", "placement": "0", "workers": 1, "devices": 1, "compression": "fp8"})",
       "field 'compression' is missing or not none or bfloat16"},
      {WireOp::kHello, std::string(60'000, '['), "not a JSON object"},
      {WireOp::kHello, std::string(100'000, '['), "the first message has 100064 bytes, expected at most 65536"},
      {WireOp::kParameters, "", "the first record must be 'hello'"},
  };
  for (const Case& test : cases) {
    const auto peer = std::make_shared<RawPeer>();
    const std::shared_ptr<Stream> stream = transport_->Dial(addresses_[0], peer, absl::Seconds(5));
    Record record;
    record.header.op = test.op;
    record.payload = Payload::OfText(test.payload);
    record.header.length = static_cast<uint32_t>(record.payload.size());
    stream->Send({record});
    EXPECT_THAT(std::string(peer->AwaitClosed().message()), HasSubstr(test.expected));
  }
  ASSERT_TRUE(chief.Train(1).ok());
}

TEST_P(KvstoreTest, WhoOpensAStreamAndSaysNothingIsTurnedAway) {
  KvServerOptions options = ServerOptions(0, 1, 1, KvMode::kAsync);
  options.timeouts.hello = absl::Milliseconds(100);
  StartServer(options);
  TestWorker chief(MakeClient(ClientOptions(0, 1, KvMode::kAsync)), 0);
  ASSERT_TRUE(chief.Start().ok());
  const auto silent = std::make_shared<RawPeer>();
  const std::shared_ptr<Stream> stream = transport_->Dial(addresses_[0], silent, absl::Seconds(5));
  const absl::Status status = silent->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server 0: no 'hello' within 100ms"));
  EXPECT_TRUE(chief.Train(2).ok()) << "who has said it stays";
}

}  // namespace
}  // namespace trainyard::engine
