#include "trainer/train/allreduce_updater.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "trainer/kvstore/test_cluster.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

// All ranks of a test share one transport.
class SharedTransport final : public Transport {
 public:
  explicit SharedTransport(Transport& transport) : transport_(transport) {}
  std::shared_ptr<Stream> Dial(const std::string& address, std::shared_ptr<StreamHandler> handler, absl::Duration deadline) override {
    return transport_.Dial(address, std::move(handler), deadline);
  }
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address, std::shared_ptr<StreamHandler> handler) override {
    return transport_.Listen(address, std::move(handler));
  }

 private:
  Transport& transport_;
};

// A rank's step loop.
class Rank {
 public:
  Rank(int rank, int ranks, Transport& transport, TrainingState checkpoint, int64_t end_step = 100)
      : rank_(rank), parameters_(TestSpecs()), gradients_(TestSpecs()), checkpoint_(std::move(checkpoint)) {
    AllReduceUpdaterOptions options{.optimizer = TestOptimizer(), .specs = TestSpecs(), .keys = {0, 1, 3}, .end_step = end_step};
    for (int i = 0; i < ranks; ++i) options.group.hosts.push_back("rank-" + std::to_string(i));
    options.group.listen = options.group.hosts[rank];
    options.group.rank = rank;
    options.group.agreement = {{"the seed", "1"}};
    options.group.timeouts = {.peer = absl::Seconds(30), .connect = absl::Seconds(30), .silence = absl::Seconds(1)};
    options.load = [this](bool again) {
      if (again) ++loaded_again_;
      TrainingState state{.parameters = ParameterSet(TestSpecs()), .slots = {}, .step = checkpoint_.step};
      state.slots.emplace_back(TestSpecs());
      for (int key = 0; key < state.parameters.size(); ++key) {
        std::ranges::copy(checkpoint_.parameters.values(key), state.parameters.values(key).begin());
        std::ranges::copy(checkpoint_.slots[0].values(key), state.slots[0].values(key).begin());
      }
      return state;
    };
    options.empty_state = [] {
      TrainingState state{.parameters = ParameterSet(TestSpecs()), .slots = {}, .step = 0};
      state.slots.emplace_back(TestSpecs());
      return state;
    };
    options.finished = [end_step](int64_t step) { return step >= end_step; };
    options.carries_state = [] { return false; };
    absl::StatusOr<std::unique_ptr<AllReduceUpdater>> updater =
        AllReduceUpdater::Create(std::move(options), std::make_unique<SharedTransport>(transport));
    EXPECT_TRUE(updater.ok()) << updater.status();
    updater_ = *std::move(updater);
  }

  absl::Status Start() {
    absl::StatusOr<TrainingStart> start = updater_->Start(parameters_);
    if (!start.ok()) return start.status();
    start_ = *start;
    step_ = start_.worker_step;
    if (start_.redone) redone_.push_back(*start_.redone);
    return absl::OkStatus();
  }
  void Push(int keys = 3) {
    FillGradients(parameters_, rank_, step_, gradients_);
    for (const int key : {3, 1, 0}) {
      if (keys-- > 0) updater_->Push(key, gradients_.gradient(key), step_);
    }
    updater_->PushNothing(2, step_);
  }
  absl::Status Train(int64_t until) {
    while (step_ < until) {
      Push();
      const absl::StatusOr<StepResult> result = updater_->Wait(parameters_);
      if (IsRolledBack(result.status())) {
        if (const absl::Status started = Start(); !started.ok()) return started;
        continue;
      }
      if (!result.ok()) return result.status();
      if (result->ended) return absl::OkStatus();
      ++step_;
    }
    return absl::OkStatus();
  }
  absl::Status StartAndTrain(int64_t until) {
    const absl::Status started = Start();
    return started.ok() ? Train(until) : started;
  }
  void Kill() { updater_.reset(); }

  Updater& updater() { return *updater_; }
  TrainingState State() { return *updater_->State(parameters_); }
  const TrainingStart& start() const { return start_; }
  int64_t step() const { return step_; }
  int loaded_again() const { return loaded_again_; }
  const std::vector<RedoneSteps>& redone() const { return redone_; }
  std::string Sha256() const { return parameters_.Sha256Hex(); }

 private:
  const int rank_;
  ParameterSet parameters_;
  ParameterSet gradients_;
  TrainingState checkpoint_;
  TrainingStart start_;
  int64_t step_ = 0;
  std::atomic<int> loaded_again_ = 0;
  std::vector<RedoneSteps> redone_;
  std::unique_ptr<AllReduceUpdater> updater_;  // sends from gradients_: it goes first
};

class AllReduceUpdaterTest : public ::testing::Test {
 protected:
  void Make(int ranks, int64_t end_step = 100) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(Make(rank, ranks, StartState(TestSpecs()), end_step));
  }
  std::unique_ptr<Rank> Make(int rank, int ranks, TrainingState checkpoint, int64_t end_step = 100) {
    return std::make_unique<Rank>(rank, ranks, *transport_, std::move(checkpoint), end_step);
  }
  void OnAll(const std::function<absl::Status(Rank&)>& work) {
    std::vector<std::thread> threads;
    for (const std::unique_ptr<Rank>& rank : ranks_) {
      threads.emplace_back([&] {
        const absl::Status status = work(*rank);
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<Transport> transport_ = MakeInprocTransport();
  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(AllReduceUpdaterTest, RanksEndWithTheBitsOfOneProcess) {
  for (const int ranks : {1, 2, 3}) {
    ranks_.clear();
    Make(ranks);
    OnAll([](Rank& rank) { return rank.StartAndTrain(5); });
    const std::string expected = TrainLocally(ranks, 5).parameters.Sha256Hex();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), expected) << ranks;
    EXPECT_EQ(ranks_[0]->State().slots[0].Sha256Hex(), TrainLocally(ranks, 5).slots[0].Sha256Hex());
    EXPECT_EQ(ranks_[0]->updater().bytes_sent() > 0, ranks > 1);
  }
}

TEST_F(AllReduceUpdaterTest, ALostRankTakesOverWhatRankZeroHas) {
  Make(3);
  OnAll([](Rank& rank) { return rank.StartAndTrain(2); });
  ranks_[2]->Push(1);
  ranks_[2]->Kill();
  ranks_[2] = nullptr;
  ranks_[2] = Make(2, 3, StartState(TestSpecs()));
  OnAll([this](Rank& rank) { return &rank == ranks_[2].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  EXPECT_EQ(ranks_[2]->start().worker_step, 2);
  EXPECT_EQ(ranks_[0]->redone().size(), 0U);
  EXPECT_EQ(ranks_[0]->loaded_again(), 0);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), TrainLocally(3, 4).parameters.Sha256Hex());
}

TEST_F(AllReduceUpdaterTest, ALostRankZeroTakesAllBackToItsCheckpoint) {
  Make(3);
  OnAll([](Rank& rank) { return rank.StartAndTrain(1); });
  TrainingState checkpoint = ranks_[0]->State();
  OnAll([](Rank& rank) { return rank.Train(3); });
  ranks_[0]->Kill();
  ranks_[0] = nullptr;
  ranks_[0] = Make(0, 3, std::move(checkpoint));
  OnAll([this](Rank& rank) { return &rank == ranks_[0].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  ASSERT_EQ(ranks_[0]->redone().size(), 1U);
  EXPECT_EQ(ranks_[0]->redone()[0].from, 1);
  EXPECT_EQ(ranks_[0]->redone()[0].to, 3);
  EXPECT_THAT(ranks_[0]->redone()[0].reason, HasSubstr("rank 0"));
  EXPECT_TRUE(ranks_[0]->start().joined);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), TrainLocally(3, 4).parameters.Sha256Hex());
}

TEST_F(AllReduceUpdaterTest, ARankThatCannotGoOnTakesAllBackToTheCheckpoint) {
  Make(2);
  OnAll([](Rank& rank) { return rank.StartAndTrain(3); });
  EXPECT_TRUE(IsRolledBack(ranks_[1]->updater().AskForRollback("no state")));
  OnAll([this](Rank& rank) { return &rank == ranks_[1].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  EXPECT_EQ(ranks_[0]->loaded_again(), 1);
  EXPECT_EQ(ranks_[0]->redone()[0].to, 3);
  EXPECT_THAT(ranks_[0]->redone()[0].reason, HasSubstr("no state"));
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), TrainLocally(2, 4).parameters.Sha256Hex());
}

TEST_F(AllReduceUpdaterTest, TheLastStepIsTheEndAndRankZeroReleasesTheOthers) {
  Make(3, /*end_step=*/2);
  OnAll([this](Rank& rank) {
    if (const absl::Status trained = rank.StartAndTrain(2); !trained.ok()) return trained;
    const absl::Status released = &rank == ranks_[0].get() ? rank.updater().Release() : rank.updater().AwaitRelease();
    rank.updater().Done();
    return released;
  });
}

TEST_F(AllReduceUpdaterTest, AChiefThatFindsTheTrainingFinishedNeedsNobody) {
  TrainingState checkpoint = StartState(TestSpecs());
  checkpoint.step = 2;
  ranks_.push_back(Make(0, 2, std::move(checkpoint), /*end_step=*/2));
  ASSERT_TRUE(ranks_[0]->Start().ok());
  EXPECT_TRUE(ranks_[0]->start().finished);
  EXPECT_TRUE(ranks_[0]->updater().Release().ok());  // the other one may have ended long ago
}

}  // namespace
}  // namespace trainyard::engine
