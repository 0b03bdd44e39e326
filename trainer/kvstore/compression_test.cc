// Pushes and answers as bfloat16: the same bits in every cluster shape, half the bytes, and what is
// left where a worker begins anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "trainer/kvstore/part_store.h"
#include "trainer/kvstore/test_cluster.h"
#include "trainer/kvstore/test_payload.h"
#include "trainer/kvstore/travelling_values.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParameterSet Rounded(const ParameterSet& parameters) {
  ParameterSet rounded = CopyOf(parameters);
  for (int key = 0; key < rounded.size(); ++key) {
    if (!rounded.spec(key).trainable) continue;
    RoundToBfloat16(rounded.values(key));
  }
  return rounded;
}

// One process without servers that rounds as workers and servers do, one value at a time: the
// gradients of each worker with a residual of its own, and what the gradients are made of.
TrainingState TrainRounding(int workers, int64_t steps) {
  const std::vector<ParameterSpec> specs = TestSpecs();
  const std::unique_ptr<Optimizer> optimizer = *MakeOptimizer(TestOptimizer());
  TrainingState state = StartState(specs);
  std::vector<ParameterSet> residuals;
  for (int worker = 0; worker < workers; ++worker) residuals.emplace_back(specs);
  ParameterSet gradients(specs);
  for (int64_t step = 0; step < steps; ++step) {
    const ParameterSet seen = Rounded(state.parameters);
    ParameterSet mean(specs);
    for (int worker = 0; worker < workers; ++worker) {
      FillGradients(seen, worker, step, gradients);
      for (int key = 0; key < mean.size(); ++key) {
        float* const residual = residuals[worker].values(key).data();
        const float* const gradient = gradients.values(key).data();
        float* const sums = mean.values(key).data();
        const size_t size = mean.values(key).size();
        for (size_t i = 0; i < size; ++i) {
          const float whole = gradient[i] + residual[i];
          const float sent = RoundToBfloat16(whole);
          residual[i] = whole - sent;
          sums[i] = worker == 0 ? sent : sums[i] + sent;
        }
      }
    }
    ApplyMean(*optimizer, workers, step, mean, state);
  }
  state.step = steps;
  return state;
}

class CompressionTest : public KvstoreTest {
 protected:
  KvServerOptions Server(int server, int servers, int workers, KvMode mode, Compression compression = Compression::kBfloat16) {
    KvServerOptions options = ServerOptions(server, servers, workers, mode);
    options.compression = compression;
    return options;
  }
  void StartAll(int servers, int workers, KvMode mode, Compression compression = Compression::kBfloat16) {
    for (int i = 0; i < servers; ++i) StartServer(Server(i, servers, workers, mode, compression));
  }
  KvClientOptions Client(int worker, int workers, KvMode mode, Compression compression = Compression::kBfloat16) {
    KvClientOptions options = ClientOptions(worker, workers, mode);
    options.compression = compression;
    return options;
  }
  std::unique_ptr<TestWorker> Worker(int worker, int workers, KvMode mode, Compression compression = Compression::kBfloat16) {
    return std::make_unique<TestWorker>(MakeClient(Client(worker, workers, mode, compression)), worker);
  }
  void EndAll() {
    for (size_t i = 0; i < servers_.size(); ++i) EXPECT_TRUE(AwaitServerEnd(static_cast<int>(i)).ok());
    servers_.clear();
    addresses_.clear();
    for (std::thread& thread : server_threads_) thread.join();
    server_threads_.clear();
  }
};

TEST_P(CompressionTest, SyncGivesTheBitsOfOneProcessThatRoundsInEveryClusterShape) {
  constexpr int64_t kSteps = 4;
  for (int workers = 1; workers <= 3; ++workers) {
    const TrainingState expected = TrainRounding(workers, kSteps);
    const std::string seen = Rounded(expected.parameters).Sha256Hex();
    EXPECT_NE(expected.parameters.Sha256Hex(), TrainLocally(workers, kSteps).parameters.Sha256Hex());
    for (int servers = 1; servers <= 3; ++servers) {
      SCOPED_TRACE(std::to_string(workers) + "w" + std::to_string(servers) + "p");
      StartAll(servers, workers, KvMode::kSync);
      std::vector<std::thread> threads;
      for (int w = 0; w < workers; ++w) {
        threads.emplace_back([&, w] {
          const std::unique_ptr<TestWorker> worker = Worker(w, workers, KvMode::kSync);
          EXPECT_TRUE(worker->Start().ok());
          EXPECT_TRUE(worker->Train(kSteps).ok());
          EXPECT_EQ(worker->parameters().Sha256Hex(), seen) << "a worker trains with rounded values";
          if (w == 0) {
            const absl::StatusOr<TrainingState> state = worker->client().Pull(/*with_slots=*/true);
            ASSERT_TRUE(state.ok()) << state.status();
            EXPECT_EQ(state->parameters.Sha256Hex(), expected.parameters.Sha256Hex()) << "a checkpoint has them as they are";
            EXPECT_EQ(state->slots[0].Sha256Hex(), expected.slots[0].Sha256Hex());
          }
          worker->client().Done();
        });
      }
      for (std::thread& thread : threads) thread.join();
      EndAll();
    }
  }
}

TEST_P(CompressionTest, AStepCostsHalfTheBytesEachWay) {
  constexpr int64_t kSteps = 5;
  for (const KvMode mode : {KvMode::kSync, KvMode::kAsync}) {
    SCOPED_TRACE(KvModeName(mode));
    std::vector<double> sent;
    std::vector<double> received;
    for (const Compression compression : {Compression::kNone, Compression::kBfloat16}) {
      StartAll(2, 1, mode, compression);
      const std::unique_ptr<TestWorker> worker = Worker(0, 1, mode, compression);
      ASSERT_TRUE(worker->Start().ok());
      const int64_t sent_before = worker->client().bytes_sent();
      const int64_t received_before = worker->client().bytes_received();
      ASSERT_TRUE(worker->Train(kSteps).ok());
      sent.push_back(static_cast<double>(worker->client().bytes_sent() - sent_before));
      received.push_back(static_cast<double>(worker->client().bytes_received() - received_before));
      worker->client().Done();
      EndAll();
    }
    EXPECT_NEAR(sent[1] / sent[0], 0.5, 0.01);
    EXPECT_NEAR(received[1] / received[0], 0.5, 0.01);
  }
}

TEST_P(CompressionTest, AWorkerThatSendsFloat32IsRefusedByName) {
  StartAll(1, 1, KvMode::kSync);
  const absl::Status status = Worker(0, 1, KvMode::kSync, Compression::kNone)->Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the strategy's compression differs: server 0 has bfloat16, worker 0 has none"));
}

TEST_P(CompressionTest, NextValuesOfStatisticsTravelAsTheyAre) {
  StartAll(1, 1, KvMode::kSync);
  const std::unique_ptr<KvClient> client = MakeClient(Client(0, 1, KvMode::kSync));
  ParameterSet parameters(TestSpecs());
  ASSERT_TRUE(client->Start(parameters).ok());
  ParameterSet gradients(TestSpecs());
  constexpr float kNotRound = 1 + 0x1p-23F;
  const int statistics = parameters.Find("moving/mean");
  std::ranges::fill(gradients.values(statistics), kNotRound);
  for (int key = 0; key < gradients.size(); ++key) client->PushGradient(key, gradients.gradient(key), 0);
  ASSERT_TRUE(client->Wait(parameters).ok());
  EXPECT_THAT(parameters.values(statistics), Each(kNotRound));
  client->Done();
}

TEST_P(CompressionTest, AfterARollbackNothingIsLeftOfTheGivenUpSteps) {
  StartAll(2, 2, KvMode::kSync);
  const std::unique_ptr<TestWorker> chief = Worker(0, 2, KvMode::kSync);
  const std::unique_ptr<TestWorker> other = Worker(1, 2, KvMode::kSync);
  ASSERT_TRUE(chief->Start().ok());
  ASSERT_TRUE(other->Start().ok());
  TrainAll({chief.get(), other.get()}, 3);
  KvServerOptions again = Server(1, 2, 2, KvMode::kSync);
  again.address = addresses_[1];
  LoseServer(1);
  StartServer(again);
  TrainAll({chief.get(), other.get()}, 5);
  EXPECT_EQ(chief->rollbacks(), 1);
  const std::string expected = Rounded(TrainRounding(2, 5).parameters).Sha256Hex();
  EXPECT_EQ(chief->parameters().Sha256Hex(), expected);
  EXPECT_EQ(other->parameters().Sha256Hex(), expected);
  chief->client().Done();
  other->client().Done();
}

// Remembers its streams, so that a test can cut them.
class CuttableTransport final : public Transport {
 public:
  explicit CuttableTransport(Transport& inner) : inner_(inner) {}
  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    std::shared_ptr<Stream> stream = inner_.Dial(address, std::move(handler), deadline);
    absl::MutexLock lock(&mutex_);
    streams_.push_back(stream);
    return stream;
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    return inner_.Listen(address, std::move(handler));
  }
  void Cut() {
    std::vector<std::shared_ptr<Stream>> streams;
    {
      absl::MutexLock lock(&mutex_);
      streams.swap(streams_);
    }
    for (const std::shared_ptr<Stream>& stream : streams) stream->Abort();
  }

 private:
  Transport& inner_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

TEST_P(CompressionTest, APushThatIsSentAgainIsTheSame) {
  constexpr int64_t kSteps = 4;
  StartAll(2, 2, KvMode::kSync);
  CuttableTransport cuttable(*transport_);
  TestWorker cut(*KvClient::Create(Client(1, 2, KvMode::kSync), cuttable), 1);
  const std::unique_ptr<TestWorker> chief = Worker(0, 2, KvMode::kSync);
  ASSERT_TRUE(chief->Start().ok());
  ASSERT_TRUE(cut.Start().ok());
  for (int64_t step = 0; step < kSteps; ++step) {
    cut.Push();
    cuttable.Cut();
    chief->Push();
    ASSERT_TRUE(cut.Wait().ok());
    ASSERT_TRUE(chief->Wait().ok());
  }
  EXPECT_EQ(cut.rollbacks() + chief->rollbacks(), 0);
  EXPECT_EQ(cut.parameters().Sha256Hex(), Rounded(TrainRounding(2, kSteps).parameters).Sha256Hex());
  chief->client().Done();
  cut.client().Done();
}

TEST_P(CompressionTest, AsyncGivesTheBitsOfOneProcessToOneWorker) {
  StartAll(3, 1, KvMode::kAsync);
  const std::unique_ptr<TestWorker> worker = Worker(0, 1, KvMode::kAsync);
  ASSERT_TRUE(worker->Start().ok());
  ASSERT_TRUE(worker->Train(4).ok());
  const TrainingState expected = TrainRounding(1, 4);
  EXPECT_EQ(worker->parameters().Sha256Hex(), Rounded(expected.parameters).Sha256Hex());
  ParameterSet last(TestSpecs());
  ASSERT_TRUE(worker->client().PullInto(last).ok());
  EXPECT_EQ(last.Sha256Hex(), expected.parameters.Sha256Hex());
  worker->client().Done();
}

INSTANTIATE_TEST_SUITE_P(All, CompressionTest, ::testing::ValuesIn(kTransportKinds), [](const auto& info) { return info.param.name; });

std::vector<float> WideValuesOf(const Payload& payload) {
  std::vector<std::byte> bytes(payload.size());
  PayloadReader(payload).Read(bytes);
  std::vector<float> values(bytes.size() / 2);
  FromBfloat16(bytes, values);
  return values;
}

TEST(CompressedPartStore, KeepsWhatAnswersRoundAway) {
  OptimizerConfig config;
  config.name = "sgd";
  config.learning_rate = 1;
  const std::vector<ParameterSpec> specs = {{.name = "w", .shape = Shape({3})}};
  PartStore store(specs, PlaceParameters(specs, 1), 0, KvMode::kSync, 1, *MakeOptimizer(config), config, RealClock(), 1, nullptr,
                  Compression::kBfloat16);
  store.Assign(0, 0, FloatPayload({256, 1, 0}));
  ASSERT_TRUE(store.Activate(0, 0).ok());
  BufferPool pool(0);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto push = [&](int64_t step, const std::vector<float>& gradient) {
    return store.Push(0, 0, step, Bfloat16Payload(gradient, pool));
  };
  EXPECT_THAT(WideValuesOf(push(0, {-0.5F, 0, 0})->values), ElementsAre(256, 1, 0));
  EXPECT_THAT(WideValuesOf(push(1, {-0.5F, 0, 0})->values), ElementsAre(256, 1, 0));
  EXPECT_THAT(ValuesOf(store.Read(0, 0)), ElementsAre(257, 1, 0)) << "between 256 and 258 bfloat16 has nothing";
  EXPECT_THAT(WideValuesOf(push(2, {-0.5F, 0, 0})->values), ElementsAre(258, 1, 0));
  const std::vector<float> not_finite = WideValuesOf(push(3, {0, -std::numeric_limits<float>::infinity(), kNan})->values);
  EXPECT_EQ(not_finite[1], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(not_finite[2]));
}

}  // namespace
}  // namespace trainyard::engine
