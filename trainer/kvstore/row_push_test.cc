// Gradients that touch few rows of a large table: pushed as rows they give the bits of dense
// pushes, for a fraction of the bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/kvstore/client.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/row_payload.h"
#include "trainer/kvstore/server.h"
#include "trainer/kvstore/test_transports.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int32_t kRows = 1'500;
constexpr size_t kRowElements = 200;  // parts are no whole number of rows, and several servers share the table
constexpr PlacementOptions kPlacement = {.split_elements = int64_t{1} << 18, .part_elements = int64_t{1} << 15};

std::vector<ParameterSpec> TableSpecs() {
  return {{.name = "embedding/table", .shape = Shape({kRows, kRowElements}), .trainable = true},
          {.name = "dense/bias", .shape = Shape({7}), .trainable = true}};
}

OptimizerConfig TestOptimizer(const std::string& name) {
  OptimizerConfig config = DefaultOptimizerConfig(name);
  config.learning_rate = 0.1;
  return config;
}

TrainingState StartState(const std::string& optimizer) {
  TrainingState state{.parameters = ParameterSet(TableSpecs()), .slots = {}, .step = 0};
  for (int key = 0; key < state.parameters.size(); ++key) {
    int64_t i = 0;
    for (float& value : state.parameters.values(key)) value = 0.001F * static_cast<float>((++i * 7919) % 2003 - 1000);
  }
  for (size_t i = 0; i < (*MakeOptimizer(TestOptimizer(optimizer)))->slot_names().size(); ++i) state.slots.emplace_back(TableSpecs());
  return state;
}

struct Job {
  std::string optimizer = "sgd";
  KvMode mode = KvMode::kSync;
  int workers = 1;
  int servers = 1;
  Compression compression = Compression::kNone;
};

// A worker whose gradients depend on its own copy of the parameters, so that a value which it was
// not told shows in all that follows.
class TableWorker {
 public:
  TableWorker(const KvClientOptions& options, Transport& transport, bool by_rows)
      : index_(options.worker), by_rows_(by_rows), parameters_(TableSpecs()), gradients_(TableSpecs()) {
    absl::StatusOr<std::unique_ptr<KvClient>> client = KvClient::Create(options, transport);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    gradients_.touched_rows(0).Reserve(kRows);
    const absl::StatusOr<TrainingStart> start = client_->Start(parameters_);
    EXPECT_TRUE(start.ok()) << start.status();
    step_ = start->worker_step;
  }

  void Push() {
    const std::span<float> table = gradients_.values(0);
    std::ranges::fill(table, 0.0F);
    std::vector<int32_t> rows;
    // Some rows are every worker's in every step, the first and the last row of all, and those at
    // the cuts between parts.
    for (const int32_t row : {0, 163, 164, 1'499}) rows.push_back(row);
    for (int32_t i = 0; i < 40; ++i) rows.push_back(static_cast<int32_t>((i * 977 + index_ * 131 + step_ * 389) % kRows));
    std::ranges::sort(rows);
    rows.erase(std::ranges::unique(rows).begin(), rows.end());
    const float shift = 0.01F * static_cast<float>(index_ + 1);
    for (const int32_t row : rows) {
      for (size_t i = row * kRowElements; i < (row + size_t{1}) * kRowElements; ++i) table[i] = 0.1F * parameters_.values(0)[i] + shift;
    }
    for (float& value : gradients_.values(1)) value = shift;
    if (by_rows_) gradients_.touched_rows(0).Touch(rows);
    client_->PushGradient(1, gradients_.gradient(1), step_);
    client_->PushGradient(0, gradients_.gradient(0), step_);
  }
  absl::Status Wait() {
    const absl::StatusOr<StepResult> result = client_->Wait(parameters_);
    if (result.ok()) ++step_;
    return result.status();
  }
  // One step, after as many rollbacks as it takes.
  absl::Status Step() {
    while (true) {
      Push();
      const absl::Status status = Wait();
      if (!IsRolledBack(status)) return status;
      const absl::StatusOr<TrainingStart> start = client_->Start(parameters_);
      if (!start.ok()) return start.status();
      step_ = start->worker_step;
    }
  }

  KvClient& client() { return *client_; }
  const ParameterSet& parameters() const { return parameters_; }
  int64_t step() const { return step_; }

 private:
  const int index_;
  const bool by_rows_;
  ParameterSet parameters_;
  ParameterSet gradients_;
  std::unique_ptr<KvClient> client_;  // sends from gradients_: it goes first
  int64_t step_ = 0;
};

// Says hello like a worker, then one record of its own making.
class RudePeer final : public StreamHandler {
 public:
  explicit RudePeer(std::function<Record(const WireHeader& welcome)> make) : make_(std::move(make)) {}

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override {
    for (const Record& record : records) {
      if (record.header.op == WireOp::kWelcome) stream->Send({make_(record.header)});
    }
  }
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    status_ = status;
    closed_ = true;
  }
  std::string AwaitRefusal() {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&closed_), absl::Seconds(30)) ? std::string(status_.message()) : "never closed";
  }

 private:
  const std::function<Record(const WireHeader& welcome)> make_;
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

class RowPushTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  ~RowPushTest() override { StopServers(); }

  void StartServers(const Job& job) {
    for (int i = 0; i < job.servers; ++i) StartServer(job, i);
  }
  void StartServer(const Job& job, int index) {
    const bool again = addresses_.size() > static_cast<size_t>(index);
    absl::StatusOr<std::unique_ptr<KvServer>> server = KvServer::Create({.address = again ? addresses_[index] : GetParam().address(index),
                                                                         .server = index,
                                                                         .servers = job.servers,
                                                                         .workers = job.workers,
                                                                         .mode = job.mode,
                                                                         .compression = job.compression,
                                                                         .optimizer = TestOptimizer(job.optimizer),
                                                                         .specs = TableSpecs(),
                                                                         .placement = kPlacement,
                                                                         .timeouts = {.peer = absl::Seconds(30)}},
                                                                        *transport_);
    ASSERT_TRUE(server.ok()) << server.status();
    if (!again) {
      servers_.emplace_back();
      threads_.emplace_back();
      addresses_.push_back((*server)->address());
    }
    servers_[index] = *std::move(server);
    threads_[index] = std::thread([running = servers_[index].get()] { (void)running->Run(); });
  }
  void StopServers() {
    for (auto& server : servers_) server->Stop();
    for (std::thread& thread : threads_) thread.join();
    servers_.clear();
    threads_.clear();
    addresses_.clear();
  }

  KvClientOptions ClientOptions(const Job& job, int worker) {
    return {.servers = addresses_,
            .worker = worker,
            .workers = job.workers,
            .chief = worker == 0,
            .mode = job.mode,
            .compression = job.compression,
            .specs = TableSpecs(),
            .placement = kPlacement,
            .slot_names = (*MakeOptimizer(TestOptimizer(job.optimizer)))->slot_names(),
            .timeouts = {.peer = absl::Seconds(30), .connect = absl::Seconds(30)},
            .load = [optimizer = job.optimizer](bool) { return StartState(optimizer); }};
  }

  struct Outcome {
    std::vector<std::string> hashes;  // of each worker's parameters
    std::string values;               // of the servers', and
    std::string slots;                // theirs
    int64_t bytes_sent = 0;           // by the chief, in the steps alone
    int64_t bytes_received = 0;
  };
  Outcome Train(const Job& job, bool by_rows, int64_t steps) {
    StartServers(job);
    Outcome outcome;
    outcome.hashes.resize(job.workers);
    std::vector<std::thread> threads;
    for (int w = 0; w < job.workers; ++w) {
      threads.emplace_back([&, w] {
        TableWorker worker(ClientOptions(job, w), *transport_, by_rows);
        const int64_t sent = worker.client().bytes_sent();
        const int64_t received = worker.client().bytes_received();
        while (worker.step() < steps) {
          const absl::Status status = worker.Step();
          ASSERT_TRUE(status.ok()) << status;
        }
        outcome.hashes[w] = worker.parameters().Sha256Hex();
        if (w == 0) {
          outcome.bytes_sent = worker.client().bytes_sent() - sent;
          outcome.bytes_received = worker.client().bytes_received() - received;
          const absl::StatusOr<TrainingState> state = worker.client().Pull(/*with_slots=*/true);
          ASSERT_TRUE(state.ok()) << state.status();
          ParameterSet values = CopyOf(state->parameters);
          if (job.compression != Compression::kNone) {
            for (int key = 0; key < values.size(); ++key) RoundToBfloat16(values.values(key));
          }
          EXPECT_EQ(values.Sha256Hex(), outcome.hashes[w]);
          outcome.values = state->parameters.Sha256Hex();
          for (const ParameterSet& slot : state->slots) outcome.slots += slot.Sha256Hex();
        }
        worker.client().Done();
      });
    }
    for (std::thread& thread : threads) thread.join();
    StopServers();
    return outcome;
  }

  // What server 0 says to worker 1, who sends it what `make` has made.
  std::string RefusalOf(const Job& job, const std::function<Record(const WireHeader& welcome)>& make) {
    const uint64_t fingerprint = FingerprintOf(TableSpecs());
    KvHello hello{.agreement = MakeAgreement(TableSpecs())};
    hello.agreement.workers = job.workers;
    hello.agreement.compression = job.compression;
    hello.agreement.placement = PlaceParameters(TableSpecs(), 1, kPlacement).hash;
    const auto peer = std::make_shared<RudePeer>([&](const WireHeader& welcome) {
      Record record = make(welcome);
      record.header.sender = 1;
      record.header.fingerprint = fingerprint;
      record.header.length = static_cast<uint32_t>(record.payload.size());
      return record;
    });
    const std::shared_ptr<Stream> stream = transport_->Dial(addresses_[0], peer, absl::Seconds(5));
    Record first;
    first.header = {.op = WireOp::kHello, .sender = 1, .fingerprint = fingerprint};
    first.payload = Payload::OfText(ToJson(hello));
    first.header.length = static_cast<uint32_t>(first.payload.size());
    stream->Send({first});
    return peer->AwaitRefusal();
  }

  std::unique_ptr<Transport> transport_ = GetParam().make();
  std::vector<std::unique_ptr<KvServer>> servers_;
  std::vector<std::string> addresses_;
  std::vector<std::thread> threads_;
};

TEST_P(RowPushTest, SyncRowsGiveTheBitsOfDensePushesInEveryClusterShape) {
  struct Case {
    int workers;
    int servers;
    std::string optimizer;
  };
  for (const Case& test : {Case{1, 1, "sgd"}, Case{2, 1, "sgd"}, Case{3, 3, "sgd"}, Case{2, 3, "adagrad"}, Case{2, 1, "adam"}}) {
    SCOPED_TRACE(test.optimizer + " " + std::to_string(test.workers) + "w" + std::to_string(test.servers) + "p");
    const Job job{.optimizer = test.optimizer, .mode = KvMode::kSync, .workers = test.workers, .servers = test.servers};
    const Outcome dense = Train(job, /*by_rows=*/false, 4);
    const Outcome rows = Train(job, /*by_rows=*/true, 4);
    for (const std::string& hash : rows.hashes) EXPECT_EQ(hash, dense.hashes[0]);
    EXPECT_EQ(rows.slots, dense.slots);
  }
}

TEST_P(RowPushTest, AsBfloat16RowsGiveTheSameBitsInEveryClusterShapeForHalfTheBytes) {
  struct Case {
    int workers;
    std::string optimizer;
  };
  for (const Case& test : {Case{1, "sgd"}, Case{2, "adam"}, Case{3, "sgd"}}) {
    const auto job = [&](int servers, Compression compression) {
      return Job{.optimizer = test.optimizer, .workers = test.workers, .servers = servers, .compression = compression};
    };
    const Outcome one = Train(job(1, Compression::kBfloat16), /*by_rows=*/true, 4);
    for (const std::string& hash : one.hashes) EXPECT_EQ(hash, one.hashes[0]);
    for (const int servers : {2, 3}) {
      SCOPED_TRACE(test.optimizer + " " + std::to_string(test.workers) + "w" + std::to_string(servers) + "p");
      const Outcome several = Train(job(servers, Compression::kBfloat16), /*by_rows=*/true, 4);
      EXPECT_EQ(several.hashes, one.hashes);
      EXPECT_EQ(several.values, one.values);
      EXPECT_EQ(several.slots, one.slots);
    }
    const Outcome plain = Train(job(1, Compression::kNone), /*by_rows=*/true, 4);
    EXPECT_NE(plain.values, one.values);
    EXPECT_LT(static_cast<double>(one.bytes_sent), 0.55 * static_cast<double>(plain.bytes_sent)) << "numbers of rows take four bytes still";
  }
}

TEST_P(RowPushTest, AStepCostsTheBytesOfItsRows) {
  const Job job{.workers = 1, .servers = 3};
  constexpr int64_t kSteps = 6;
  constexpr int64_t kTableBytes = kRows * static_cast<int64_t>(kRowElements * sizeof(float));
  constexpr int64_t kRowBytes = 44 * static_cast<int64_t>(kRowElements * sizeof(float));
  const Outcome rows = Train(job, /*by_rows=*/true, kSteps);
  EXPECT_LT(rows.bytes_sent, kSteps * kRowBytes * 3 / 2);
  EXPECT_LT(rows.bytes_received, kTableBytes + kSteps * kRowBytes * 3 / 2) << "only the first answer is whole";
  const Outcome dense = Train(job, /*by_rows=*/false, kSteps);
  EXPECT_GT(dense.bytes_sent, kSteps * kTableBytes);
  EXPECT_GT(dense.bytes_received, kSteps * kTableBytes);
}

TEST_P(RowPushTest, AGradientThatTouchesAlmostEveryRowTravelsDense) {
  const Job job;
  StartServers(job);
  TableWorker worker(ClientOptions(job, 0), *transport_, /*by_rows=*/true);
  ParameterSet gradients(TableSpecs());
  std::vector<int32_t> all(kRows);
  std::iota(all.begin(), all.end(), 0);
  gradients.touched_rows(0).Reserve(kRows);
  gradients.touched_rows(0).Touch(all);
  std::ranges::fill(gradients.values(0), 1.0F);
  ParameterSet parameters(TableSpecs());
  const int64_t before = worker.client().bytes_sent();
  for (const int key : {1, 0}) worker.client().PushGradient(key, gradients.gradient(key), 0);
  ASSERT_TRUE(worker.client().Wait(parameters).ok());
  const auto table_bytes = static_cast<int64_t>(gradients.values(0).size_bytes());
  EXPECT_LT(worker.client().bytes_sent() - before, table_bytes + 2'000) << "rows would add four bytes each";
  EXPECT_FLOAT_EQ(parameters.values(0)[0], StartState("sgd").parameters.values(0)[0] - 0.1F);
}

TEST_P(RowPushTest, AsyncWorkersAreToldWhatOthersChangedMeanwhile) {
  const Job job{.mode = KvMode::kAsync, .workers = 2, .servers = 3};
  StartServers(job);
  std::vector<std::unique_ptr<TableWorker>> workers;
  for (int w = 0; w < job.workers; ++w) workers.push_back(std::make_unique<TableWorker>(ClientOptions(job, w), *transport_, true));
  const auto step_is_whole = [&](int w) {
    const absl::Status status = workers[w]->Step();
    ASSERT_TRUE(status.ok()) << status;
    const absl::StatusOr<TrainingState> state = workers[w]->client().Pull(/*with_slots=*/false);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(workers[w]->parameters().Sha256Hex(), state->parameters.Sha256Hex());
  };
  for (const int w : {0, 1, 1, 0, 0, 0, 1, 0}) step_is_whole(w);
  workers[1] = nullptr;  // killed
  step_is_whole(0);
  workers[1] = std::make_unique<TableWorker>(ClientOptions(job, 1), *transport_, true);
  for (const int w : {0, 1, 1, 0}) step_is_whole(w);
}

TEST_P(RowPushTest, ASyncWorkerThatCameBackIsToldEverythingWhileTheOtherGetsRows) {
  const Job job{.mode = KvMode::kSync, .workers = 2, .servers = 3};
  StartServers(job);
  TableWorker chief(ClientOptions(job, 0), *transport_, /*by_rows=*/true);
  auto other = std::make_unique<TableWorker>(ClientOptions(job, 1), *transport_, /*by_rows=*/true);
  const auto step_both = [&] {
    chief.Push();
    other->Push();
    ASSERT_TRUE(chief.Wait().ok());
    ASSERT_TRUE(other->Wait().ok());
    const absl::StatusOr<TrainingState> state = chief.client().Pull(/*with_slots=*/false);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(chief.parameters().Sha256Hex(), state->parameters.Sha256Hex());
    EXPECT_EQ(other->parameters().Sha256Hex(), state->parameters.Sha256Hex());
  };
  for (int i = 0; i < 3; ++i) step_both();
  other = nullptr;  // killed
  chief.Push();
  other = std::make_unique<TableWorker>(ClientOptions(job, 1), *transport_, /*by_rows=*/true);
  other->Push();
  ASSERT_TRUE(chief.Wait().ok());
  ASSERT_TRUE(other->Wait().ok());
  EXPECT_EQ(chief.parameters().Sha256Hex(), other->parameters().Sha256Hex());
  for (int i = 0; i < 3; ++i) step_both();
}

TEST_P(RowPushTest, ARefilledServerAnswersWithAllThatItHas) {
  for (const KvMode mode : {KvMode::kSync, KvMode::kAsync}) {
    const Job job{.mode = mode, .workers = 1, .servers = 1};
    StartServers(job);
    TableWorker worker(ClientOptions(job, 0), *transport_, /*by_rows=*/true);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(worker.Step().ok());
    servers_[0]->Stop();
    threads_[0].join();
    servers_[0].reset();
    StartServer(job, 0);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(worker.Step().ok());
      const absl::StatusOr<TrainingState> state = worker.client().Pull(/*with_slots=*/false);
      ASSERT_TRUE(state.ok()) << state.status();
      EXPECT_EQ(worker.parameters().Sha256Hex(), state->parameters.Sha256Hex());
    }
    worker.client().Done();
    StopServers();
  }
}

TEST_P(RowPushTest, RowsThatMakeNoSenseAreRefusedByNameAndTheOthersGoOn) {
  const Job job{.mode = KvMode::kAsync, .workers = 2};
  StartServers(job);
  TableWorker chief(ClientOptions(job, 0), *transport_, /*by_rows=*/true);
  struct Case {
    WireOp op;
    std::vector<uint32_t> words;
    std::string expected;
  };
  const Case cases[] = {
      {WireOp::kPush, {}, "rows: 0 bytes, expected at least 4"},
      {WireOp::kPush, {7}, "rows: 7 rows are announced in 4 bytes"},
      {WireOp::kPush, {1, 164}, "rows: row 164 is not in this part, expected 0 to 163"},
      {WireOp::kPush, {2, 5, 5}, "rows: row 5 after row 5, expected ascending rows"},
      {WireOp::kPush, {1, 5, 0}, "rows: 12 bytes for 1 rows, expected 808"},
      {WireOp::kAssign, {0}, "only the chief may assign"},
  };
  for (const Case& test : cases) {
    const std::string refusal = RefusalOf(job, [&](const WireHeader& welcome) {
      Record record;
      record.header = {.op = test.op, .flags = kWireFlagRows, .epoch = welcome.epoch, .slot = 1, .dtype = 0};
      record.payload = Payload::OfText(std::string(reinterpret_cast<const char*>(test.words.data()), test.words.size() * sizeof(uint32_t)));
      return record;
    });
    EXPECT_THAT(refusal, HasSubstr(test.expected));
    if (test.op == WireOp::kPush) {
      EXPECT_THAT(refusal, AllOf(HasSubstr("server 0"), HasSubstr("'push' of 'embedding/table' part 0")));
    }
  }
  EXPECT_TRUE(chief.Step().ok());
}

TEST_P(RowPushTest, BytesThatAreNotBfloat16AreRefusedByNameAndTheOthersGoOn) {
  const Job job{.mode = KvMode::kAsync, .workers = 2, .compression = Compression::kBfloat16};
  StartServers(job);
  TableWorker chief(ClientOptions(job, 0), *transport_, /*by_rows=*/true);
  const Part bias = PlaceParameters(TableSpecs(), 1, kPlacement).parts.back();
  ASSERT_EQ(bias.count, 7);
  struct Case {
    uint32_t flags;
    DType dtype;
    size_t bytes;
    std::string expected;
  };
  const Case cases[] = {
      {0, DType::kF32, 28, "found dtype 0, 28 bytes at 0, expected dtype 5 (BF16), 14 bytes at 0"},
      {0, DType::kBF16, 13, "found dtype 5, 13 bytes at 0, expected dtype 5 (BF16), 14 bytes at 0"},
      {0, DType::kBF16, 28, "28 bytes at 0, expected dtype 5 (BF16), 14 bytes"},
      {0, DType::kU8, 14, "found dtype 4"},
      {kWireFlagRows, DType::kF32, 4, "found dtype 0"},
      {kWireFlagRows, DType::kBF16, 11, "rows: 11 bytes for 0 rows, expected 4"},
  };
  for (const Case& test : cases) {
    const std::string refusal = RefusalOf(job, [&](const WireHeader& welcome) {
      Record record;
      record.header = {
          .op = WireOp::kPush, .flags = test.flags, .epoch = welcome.epoch, .key = 1, .slot = 1, .dtype = static_cast<uint8_t>(test.dtype)};
      record.payload = Payload::OfText(std::string(test.bytes, '\0'));
      return record;
    });
    EXPECT_THAT(refusal, AllOf(HasSubstr("server 0"), HasSubstr("'push' of 'dense/bias' part 0"), HasSubstr(test.expected)));
  }
  EXPECT_TRUE(chief.Step().ok());
}

INSTANTIATE_TEST_SUITE_P(All, RowPushTest, ::testing::ValuesIn(kTransportKinds), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainyard::engine
