// Each strategy follows PyTorch: workers that share a batch among them have the losses of one
// process with the whole batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <ostream>
#include <thread>
#include <utility>

#include "tests/support/sanitized.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/server.h"
#include "trainer/model/model_json.h"
#include "trainer/model/test_golden_networks.h"
#include "trainer/train/allreduce_updater.h"
#include "trainer/train/device_sum.h"
#include "trainer/train/kvstore_updater.h"
#include "trainer/train/local_updater.h"
#include "trainer/train/test_shared_transport.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {
namespace {

constexpr size_t kStepsFollowed = kSanitized ? 3 : 20;

struct StrategyCase {
  std::string name;
  int workers = 1;
  int servers = 0;
  KvMode mode = KvMode::kSync;                    // with servers
  std::optional<AllReduceAlgorithm> algorithm{};  // without; nothing: local
  int devices = 1;                                // of each worker
  int threads = 1;                                // that update, local
  bool shard_optimizer = false;
  friend void PrintTo(const StrategyCase& c, std::ostream* out) { *out << c.name; }
};

// A worker's rows of a batch.
Tensor ShareOf(const Tensor& whole, int worker, int64_t share) {
  std::vector<int64_t> extents{share};
  extents.insert(extents.end(), whole.shape.extents().begin() + 1, whole.shape.extents().end());
  Tensor part{.dtype = whole.dtype, .shape = Shape(extents)};
  part.data = static_cast<std::byte*>(whole.data) + static_cast<size_t>(worker) * part.bytes();
  return part;
}

class StrategyGoldenTest : public ::testing::TestWithParam<StrategyCase> {
 protected:
  StrategyGoldenTest() {
    FieldErrors errors;
    spec_ = ParseModelSpec(golden_.at("model"), "model", errors);
    EXPECT_TRUE(errors.empty()) << errors.ToStatus("golden");
    specs_ = *ParameterSpecsOf(spec_);
    for (int server = 0; server < GetParam().servers; ++server) {
      addresses_.push_back("ps-" + std::to_string(server));
      absl::StatusOr<std::unique_ptr<KvServer>> made = KvServer::Create({.address = addresses_.back(),
                                                                         .server = server,
                                                                         .servers = GetParam().servers,
                                                                         .workers = GetParam().workers,
                                                                         .devices = GetParam().devices,
                                                                         .mode = GetParam().mode,
                                                                         .optimizer = OptimizerOf(golden_.at("optimizer")),
                                                                         .specs = specs_},
                                                                        *transport_);
      EXPECT_TRUE(made.ok()) << made.status();
      servers_.push_back(*std::move(made));
      serving_.emplace_back([running = servers_.back().get()] { EXPECT_TRUE(running->Run().ok()); });
    }
  }
  // Servers end by themselves once all workers have said goodbye; Stop before they notice would
  // make it Cancelled.
  ~StrategyGoldenTest() override {
    for (const auto& server : servers_) {
      if (HasFailure()) server->Stop();
    }
    for (std::thread& thread : serving_) thread.join();
  }

  absl::StatusOr<std::unique_ptr<Updater>> MakeUpdater(int worker) {
    const OptimizerConfig optimizer = OptimizerOf(golden_.at("optimizer"));
    const auto load = [this]() -> absl::StatusOr<TrainingState> {
      TrainingState state{.parameters = ParameterSet(specs_), .slots = {}, .step = 0};
      SetStartValues(state.parameters);
      return state;
    };
    const StrategyCase& c = GetParam();
    if (c.servers > 0) {
      return KvstoreUpdater::Create({.servers = addresses_,
                                     .worker = worker,
                                     .workers = c.workers,
                                     .devices = c.devices,
                                     .chief = worker == 0,
                                     .mode = c.mode,
                                     .specs = specs_,
                                     .load = [load](bool) { return load(); }},
                                    std::make_unique<SharedTransport>(*transport_));
    }
    if (!c.algorithm) return LocalUpdater::Create(optimizer, &threads_, load);
    AllReduceUpdaterOptions options{.optimizer = optimizer,
                                    .devices = c.devices,
                                    .shard_optimizer = c.shard_optimizer,
                                    .specs = specs_,
                                    .end_step = [](const InputOrigin&) { return static_cast<int64_t>(kStepsFollowed); }};
    for (int rank = 0; rank < c.workers; ++rank) options.group.hosts.push_back("rank-" + std::to_string(rank));
    options.group.listen = options.group.hosts[worker];
    options.group.rank = worker;
    options.group.node = "node-" + std::to_string(worker / 2);
    options.group.algorithm = *c.algorithm;
    for (int key = 0; key < static_cast<int>(specs_.size()); ++key) options.keys.push_back(key);
    options.load = [load](bool) { return load(); };
    options.empty_state = load;
    options.finished = [](int64_t) { return false; };
    options.carries_state = [] { return false; };
    return AllReduceUpdater::Create(std::move(options), std::make_unique<SharedTransport>(*transport_));
  }

  // The losses of a worker that takes its share of each batch, in order of the workers: the mean
  // over its devices.
  absl::StatusOr<std::vector<double>> Train(int worker) {
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend({.threads = 1}));
    const int64_t whole = golden_.at("batch").get<int64_t>();
    const int devices = GetParam().devices;
    const int64_t share = whole / GetParam().workers / devices;
    TY_ASSIGN_OR_RETURN(Graph graph, BuildTrainingGraph(spec_, share));
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor, Executor::Create(std::move(graph), *backend));
    ParameterSet parameters(specs_);
    std::vector<ParameterSet> gradients;
    for (int device = 0; device < devices; ++device) gradients.emplace_back(specs_);
    std::vector<ParameterSet*> pointers;
    for (ParameterSet& each : gradients) pointers.push_back(&each);
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<Updater> updater, MakeUpdater(worker));
    TY_RETURN_IF_ERROR(updater->Start(parameters).status());
    DeviceSum sum(*updater, std::move(pointers), GetParam().workers > 1 ? DeviceMean::kNone : DeviceMean::kOfDevices);
    const auto batches = MakeBatches(spec_, whole);
    std::vector<double> losses;
    for (size_t step = 0; step < kStepsFollowed; ++step) {
      const std::array<Feed, 2> whole_feeds = batches->Make(static_cast<int64_t>(step));
      losses.push_back(0);
      sum.Begin(static_cast<int64_t>(step), std::vector<bool>(gradients.size(), true));
      for (int device = 0; device < devices; ++device) {
        std::array<Feed, 2> feeds = whole_feeds;
        for (Feed& feed : feeds) feed.tensor = ShareOf(feed.tensor, worker * devices + device, share);
        TY_RETURN_IF_ERROR(executor->Run({.seed = 1, .step = step}, feeds, parameters, &gradients[device], nullptr));
        losses.back() += *executor->Scalar(kLossOutput) / devices;
        for (int key = parameters.size() - 1; key >= 0; --key) sum.Ready(key);
      }
      sum.End();
      TY_RETURN_IF_ERROR(updater->Wait(parameters).status());
    }
    if (GetParam().workers > 1) TY_RETURN_IF_ERROR(worker == 0 ? updater->Release() : updater->AwaitRelease());
    updater->Done();
    return losses;
  }

  const nlohmann::json golden_ = GoldenNetwork("lenet5");
  ModelSpec spec_;
  std::vector<ParameterSpec> specs_;
  const std::unique_ptr<Transport> transport_ = MakeInprocTransport();
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<KvServer>> servers_;
  std::vector<std::thread> serving_;
  ThreadPool threads_{GetParam().threads};
};

TEST_P(StrategyGoldenTest, TheWorkersTogetherFollowPyTorch) {
  const auto workers = static_cast<size_t>(GetParam().workers);
  ASSERT_EQ(golden_.at("batch").get<size_t>() % (workers * GetParam().devices), 0U);
  std::vector<absl::StatusOr<std::vector<double>>> losses(workers);
  std::vector<std::thread> threads;
  for (size_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] { losses[worker] = Train(static_cast<int>(worker)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_worker : losses) ASSERT_TRUE(of_worker.ok()) << of_worker.status();
  const auto exact = golden_.at("losses").get<std::vector<double>>();
  const auto single = golden_.at("float32Losses").get<std::vector<double>>();
  double drift = 0;
  for (size_t step = 0; step < kStepsFollowed; ++step) {
    double mean = 0;
    for (const auto& of_worker : losses) mean += (*of_worker)[step] / static_cast<double>(workers);
    drift = std::max(drift, std::abs(single[step] - exact[step]));
    ASSERT_NEAR(mean, exact[step], kDrifts * drift + kLossRounding) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, StrategyGoldenTest,
    ::testing::Values(StrategyCase{.name = "local"}, StrategyCase{.name = "localByThreeThreads", .threads = 3},
                      StrategyCase{.name = "async1x1", .servers = 1, .mode = KvMode::kAsync},
                      StrategyCase{.name = "sync1x2", .workers = 2, .servers = 1},
                      StrategyCase{.name = "sync2x4", .workers = 4, .servers = 2},
                      StrategyCase{.name = "direct2", .workers = 2, .algorithm = AllReduceAlgorithm::kDirect},
                      StrategyCase{.name = "direct5", .workers = 5, .algorithm = AllReduceAlgorithm::kDirect},
                      StrategyCase{.name = "halvingDoubling4", .workers = 4, .algorithm = AllReduceAlgorithm::kHalvingDoubling},
                      StrategyCase{.name = "halvingDoubling5", .workers = 5, .algorithm = AllReduceAlgorithm::kHalvingDoubling},
                      StrategyCase{.name = "localOf2Devices", .devices = 2},
                      StrategyCase{.name = "sync1x2Of2Devices", .workers = 2, .servers = 1, .devices = 2},
                      StrategyCase{.name = "direct2Of2Devices", .workers = 2, .algorithm = AllReduceAlgorithm::kDirect, .devices = 2},
                      StrategyCase{
                          .name = "directSharded5", .workers = 5, .algorithm = AllReduceAlgorithm::kDirect, .shard_optimizer = true},
                      StrategyCase{.name = "hierarchical4", .workers = 4, .algorithm = AllReduceAlgorithm::kHierarchical},
                      StrategyCase{.name = "hierarchical5", .workers = 5, .algorithm = AllReduceAlgorithm::kHierarchical}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trainyard::engine
