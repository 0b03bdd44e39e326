// Ranks as threads of one process, over every transport: what the tests of groups share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/base/fake_clock.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/collectives/rank_group.h"
#include "trainer/collectives/tree_order.h"
#include "trainer/tensor/buffer.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"
#include "trainer/transport/shared_memory_transport.h"
#include "trainer/transport/test_free_addresses.h"

namespace trainyard::engine {

struct TransportKind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
};

// Of the ranks' values; one transport lends it.
inline const std::shared_ptr<LendableMemory>& TestMemory() {
  static const std::shared_ptr<LendableMemory> memory = LendableMemory::Create().value();
  return memory;
}

inline const TransportKind kInproc{"Inproc", +[] { return MakeInprocTransport(); }};
inline const TransportKind kShared{"Shared", +[] { return MakeSharedMemoryTransport(MakeInprocTransport(), {.lendable = TestMemory()}); }};
inline const TransportKind kGrpc{"Grpc", +[] { return MakeGrpcTransport(); }};

// Where ranks may listen.
inline std::vector<std::string> Addresses(const std::string& kind, int count) {
  if (kind == kGrpc.name) return FreeAddresses(static_cast<size_t>(count));
  std::vector<std::string> addresses;
  for (int i = 0; i < count; ++i) addresses.push_back("rank-" + std::to_string(i));
  return addresses;
}

// Where the order of additions shows in the sum: each rank's number is far from the others'.
inline std::vector<float> ValuesOf(int rank, size_t size, int64_t step = 0) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    const auto mixed = (static_cast<size_t>(rank) * 31 + i * 7 + static_cast<size_t>(step) * 5) % 97;
    values[i] = std::ldexp(1.0F + 0.37F * static_cast<float>(mixed), (rank * 13) % 29);
  }
  return values;
}

// The sum in the order of tree_order.h over the ranks that `contribute`, undivided.
inline std::vector<float> SumOf(int ranks, size_t size, int64_t step, const std::function<bool(int)>& contribute) {
  TreeSum tree(ranks, size);
  std::vector<std::vector<float>> values(ranks);
  std::vector<float> sum(size, 0);
  tree.Begin(size);
  for (int rank = 0; rank < ranks; ++rank) {
    if (contribute(rank)) {
      values[rank] = ValuesOf(rank, size, step);
      tree.Add(values[rank]);
    } else {
      tree.AddNothing();
    }
  }
  tree.FinishInto(sum, /*divisor=*/1);
  return sum;
}

// One rank: its group and an all-reduce of one or more buckets.
class TestRank {
 public:
  TestRank(RankGroupOptions options, Transport& transport) : rank_(options.rank), ranks_(static_cast<int>(options.hosts.size())) {
    absl::StatusOr<std::unique_ptr<RankGroup>> group = RankGroup::Create(std::move(options), transport);
    EXPECT_TRUE(group.ok()) << group.status();
    if (group.ok()) group_ = *std::move(group);
  }

  RankGroup& group() { return *group_; }
  void Kill() { group_.reset(); }

  absl::Status Form(int64_t step = 0) {
    if (rank_ > 0) return group_->Join({}).status();
    const absl::StatusOr<Gathered> gathered = group_->Gather();
    if (!gathered.ok()) return gathered.status();
    group_->Form({.step = step});
    return absl::OkStatus();
  }

  // Of buckets of `size` elements each; the results in result(bucket).
  void Plan(AllReduceAlgorithm algorithm, size_t size, size_t buckets = 1) {
    operation_ = nullptr;
    plan_ = {.name = "all-reduce", .buckets = {}};
    for (size_t i = 0; i < buckets; ++i) {
      const AllReduceAlgorithm chosen = algorithm == AllReduceAlgorithm::kAuto ? AllReduceAlgorithm::kDirect : algorithm;
      plan_.buckets.push_back(
          {.name = "'tensor " + std::to_string(i) + "'", .elements = size, .schedule = AllReduce(chosen, rank_, group_->layout(), size)});
    }
    PlanAs(plan_);
    size_ = size;
    own_.clear();
    results_.clear();
    for (size_t i = 0; i < buckets; ++i) {
      own_.emplace_back(size * sizeof(float), TestMemory().get());
      results_.emplace_back(size * sizeof(float), TestMemory().get());
      std::ranges::fill(values(i), -7.0F);
    }
  }
  void PlanAs(OperationPlan plan) {
    plan_ = std::move(plan);
    operation_ = std::make_unique<Operation>(plan_, rank_, ranks_, group_->borrowed());
  }
  // From here on Wait does not wait for the others to have read this rank's results.
  void LetResultsRest() { operation_ = std::make_unique<Operation>(plan_, rank_, ranks_, group_->borrowed(), group_->results()); }

  void Begin(int64_t step) { group_->Begin(*operation_, {.step = step, .kind = OperationId::Kind::kReduce}); }
  // In two pieces each way.
  void Give(size_t bucket, int64_t step, bool contributes = true, Divisor divisor = Divisor::kNone) {
    BucketValues given;
    if (contributes) {
      const std::span<float> own(own_[bucket].as<float>(), size_);
      std::ranges::copy(ValuesOf(rank_, size_, step), own.begin());
      given.own = {own.first(size_ / 3), own.subspan(size_ / 3)};
    }
    given.targets = {{values(bucket).first(size_ / 2), divisor}, {values(bucket).subspan(size_ / 2), divisor}};
    group_->Contribute(bucket, std::move(given));
  }
  absl::StatusOr<Waited> Wait() { return group_->Wait(); }
  absl::Status Reduce(int64_t step, bool contributes = true, Divisor divisor = Divisor::kNone) {
    Begin(step);
    for (size_t i = plan_.buckets.size(); i-- > 0;) Give(i, step, contributes, divisor);  // in another order than they leave in
    return Wait().status();
  }
  // Of results.
  std::span<float> values(size_t bucket = 0) { return {results_[bucket].as<float>(), size_}; }
  std::vector<float> result(size_t bucket = 0) { return {values(bucket).begin(), values(bucket).end()}; }
  bool past_caches() const { return operation_->past_caches(); }
  int contributors(size_t bucket = 0) const { return operation_->contributors(bucket); }

 private:
  const int rank_;
  const int ranks_;
  OperationPlan plan_;
  size_t size_ = 0;
  std::vector<Buffer> own_;
  std::vector<Buffer> results_;
  std::unique_ptr<Operation> operation_;  // outlives the group, whose threads may be at it
  std::unique_ptr<RankGroup> group_;
};

class RanksTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  RankGroupOptions Options(int rank, AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto) {
    return {.hosts = hosts_,
            .listen = hosts_[rank],
            .rank = rank,
            .node = per_node_ > 0 ? "node-" + std::to_string(rank / per_node_) : "",
            .algorithm = algorithm,
            .agreement = {{"the seed", "1"}},
            .fingerprint = 42,
            .timeouts = {.peer = absl::Seconds(30), .connect = absl::Seconds(30)},
            .heartbeat_period = absl::Milliseconds(100),
            .processors = 4,
            .last_cache = last_cache_};
  }
  void MakeRanks(int ranks, AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto) {
    ranks_.clear();
    hosts_ = Addresses(GetParam().name, ranks);
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<TestRank>(Options(rank, algorithm), *transport_));
  }
  // By another clock; rank 0 tells of its waits.
  void MakeTwoRanks(FakeClock& clock, const WaitTold& on_wait = nullptr) {
    hosts_ = Addresses(GetParam().name, 2);
    for (const int rank : {0, 1}) {
      RankGroupOptions options = Options(rank);
      options.clock = &clock;
      if (rank == 0) options.on_wait = on_wait;
      ranks_.push_back(std::make_unique<TestRank>(options, *transport_));
    }
  }
  // Each rank on a thread of its own.
  void OnAll(const std::function<void(TestRank&, int rank)>& work) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (ranks_[rank] != nullptr) threads.emplace_back([&, rank] { work(*ranks_[rank], static_cast<int>(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void FormAll(int64_t step = 0) {
    OnAll([step](TestRank& rank, int) {
      const absl::Status formed = rank.Form(step);
      EXPECT_TRUE(formed.ok()) << formed;
    });
  }

  std::unique_ptr<Transport> transport_ = GetParam().make();
  std::vector<std::string> hosts_;
  int per_node_ = 0;       // 0: the nodes are unknown
  size_t last_cache_ = 0;  // unknown
  std::vector<std::unique_ptr<TestRank>> ranks_;
};

}  // namespace trainyard::engine
