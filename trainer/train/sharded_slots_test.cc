// Ranks that share the optimizer's slots among them train as those that all have them.
#include "trainer/train/sharded_slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/train/test_allreduce_ranks.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

RankSettings ShardedBy(AllReduceAlgorithm algorithm = AllReduceAlgorithm::kDirect) {
  return {.shard_optimizer = true, .algorithm = algorithm};
}

std::string DigestOf(const TrainingState& state) {
  std::string digest = state.parameters.Sha256Hex();
  for (const ParameterSet& slot : state.slots) digest += slot.Sha256Hex();
  return digest;
}

TrainingState StartWithSlots(const OptimizerConfig& optimizer) {
  TrainingState state{.parameters = StartValues(TestSpecs()), .slots = {}, .step = 0};
  for (size_t slot = 0; slot < (*MakeOptimizer(optimizer))->slot_names().size(); ++slot) state.slots.emplace_back(TestSpecs());
  return state;
}

class ShardedSlotsTest : public AllReduceRanksTest {
 protected:
  void MakeAll(int ranks, const TrainingState& checkpoint, const RankSettings& settings) {
    ranks_.clear();
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(Make(rank, ranks, Copy(checkpoint), settings));
  }
  static TrainingState Copy(const TrainingState& state) {
    TrainingState copy{.parameters = CopyOf(state.parameters), .slots = {}, .step = state.step};
    for (const ParameterSet& slot : state.slots) copy.slots.push_back(CopyOf(slot));
    return copy;
  }
  // What rank 0 has after `steps`.
  TrainingState Trained(int ranks, const TrainingState& from, const RankSettings& settings, int64_t steps) {
    MakeAll(ranks, from, settings);
    OnAll([steps](Rank& rank) { return rank.StartAndTrain(steps); });
    TrainingState state = ranks_[0]->State();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), state.parameters.Sha256Hex());
    return state;
  }
};

TEST_F(ShardedSlotsTest, TheBitsAreThoseOfRanksThatHaveAllSlots) {
  for (const std::string name : {"sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "adamw"}) {
    OptimizerConfig optimizer = TestOptimizer();
    optimizer.name = name;
    optimizer.learning_rate = 0.01;
    if (name == "adamw") optimizer.weight_decay = 0.004;
    const TrainingState start = StartWithSlots(optimizer);
    const RankSettings whole{.algorithm = AllReduceAlgorithm::kDirect, .optimizer = optimizer};
    RankSettings sharded = ShardedBy();
    sharded.optimizer = optimizer;
    EXPECT_EQ(DigestOf(Trained(3, start, sharded, 3)), DigestOf(Trained(3, start, whole, 3))) << name;
  }
}

TEST_F(ShardedSlotsTest, AnyNumberOfRanksAndAnyAlgorithmHasTheSlotsAmongThem) {
  const TrainingState start = StartState(TestSpecs());
  for (const int ranks : {1, 2, 3, 4, 5}) {
    const std::string expected = DigestOf(Trained(ranks, start, {}, 3));
    const int64_t all = ranks_[0]->updater().slot_bytes();
    for (const auto algorithm : {AllReduceAlgorithm::kAuto, AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling}) {
      EXPECT_EQ(DigestOf(Trained(ranks, start, ShardedBy(algorithm), 3)), expected) << ranks << " " << AlgorithmName(algorithm);
      int64_t bytes = 0;
      for (const auto& rank : ranks_) {
        bytes += rank->updater().slot_bytes();
        if (algorithm == AllReduceAlgorithm::kHalvingDoubling) continue;
        EXPECT_NEAR(static_cast<double>(rank->updater().slot_bytes()), static_cast<double>(all) / ranks, 100);
      }
      EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(all), 100) << "without the tensor that no step changes";
    }
  }
}

TEST_F(ShardedSlotsTest, RanksThatShareNodesHaveTheSlotsAmongThem) {
  const TrainingState start = StartState(TestSpecs());
  for (const int ranks : {4, 6}) {
    const std::string expected = DigestOf(Trained(ranks, start, {}, 3));
    const int64_t all = ranks_[0]->updater().slot_bytes();
    for (const auto algorithm : {AllReduceAlgorithm::kAuto, AllReduceAlgorithm::kHierarchical}) {
      RankSettings settings = ShardedBy(algorithm);
      settings.per_node = 2;
      EXPECT_EQ(DigestOf(Trained(ranks, start, settings, 3)), expected) << ranks << " " << AlgorithmName(algorithm);
      for (const auto& rank : ranks_) {
        EXPECT_NEAR(static_cast<double>(rank->updater().slot_bytes()), static_cast<double>(all) / ranks, 100);
      }
    }
  }
}

TEST_F(ShardedSlotsTest, ACheckpointGoesOnWithAnotherNumberOfRanks) {
  const TrainingState checkpoint = Trained(3, StartState(TestSpecs()), ShardedBy(), 2);
  const std::string expected = DigestOf(Trained(2, checkpoint, {}, 4));
  EXPECT_EQ(DigestOf(Trained(2, checkpoint, ShardedBy(AllReduceAlgorithm::kHalvingDoubling), 4)), expected);
}

TEST_F(ShardedSlotsTest, ACheckpointBetweenStepsChangesNothing) {
  const TrainingState start = StartState(TestSpecs());
  const std::string expected = DigestOf(Trained(3, start, {}, 4));
  MakeAll(3, start, ShardedBy());
  OnAll([](Rank& rank) { return rank.Start(); });
  EXPECT_EQ(DigestOf(ranks_[0]->State()), DigestOf(start)) << "before the first step";
  OnAll([this](Rank& rank) {
    if (&rank != ranks_[0].get()) return rank.Train(4);  // they are in the next step while rank 0 asks
    for (int64_t step = 1; step <= 4; ++step) {
      if (const absl::Status trained = rank.Train(step); !trained.ok()) return trained;
      EXPECT_EQ(rank.State().step, step);
      EXPECT_EQ(DigestOf(rank.State()), DigestOf(rank.State()));
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(DigestOf(ranks_[0]->State()), expected);
}

TEST_F(ShardedSlotsTest, ALostRankTakesAllBackToTheCheckpoint) {
  const TrainingState start = StartState(TestSpecs());
  const std::string expected = DigestOf(Trained(3, start, {}, 4));
  MakeAll(3, start, ShardedBy());
  OnAll([](Rank& rank) { return rank.StartAndTrain(2); });
  ranks_[2]->Push(1);
  ranks_[2]->Kill();
  ranks_[2] = nullptr;
  ranks_[2] = Make(2, 3, Copy(start), ShardedBy());
  OnAll([this](Rank& rank) { return &rank == ranks_[2].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  EXPECT_EQ(ranks_[0]->loaded_again(), 1);
  ASSERT_EQ(ranks_[0]->redone().size(), 1U);
  EXPECT_EQ(ranks_[0]->redone()[0].from, 0);
  EXPECT_EQ(ranks_[0]->redone()[0].to, 2);
  EXPECT_EQ(DigestOf(ranks_[0]->State()), expected);
}

TEST_F(ShardedSlotsTest, ALostRankCostsNothingWhereTheOptimizerHasNoSlots) {
  RankSettings settings = ShardedBy();
  settings.optimizer.name = "sgd";
  const TrainingState start = StartWithSlots(settings.optimizer);
  const std::string expected = DigestOf(Trained(2, start, {.optimizer = settings.optimizer}, 4));
  MakeAll(2, start, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(2); });
  ranks_[1]->Kill();
  ranks_[1] = nullptr;
  ranks_[1] = Make(1, 2, Copy(start), settings);
  OnAll([this](Rank& rank) { return &rank == ranks_[1].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  EXPECT_EQ(ranks_[0]->loaded_again(), 0);
  EXPECT_EQ(DigestOf(ranks_[0]->State()), expected);
}

TEST_F(ShardedSlotsTest, RankZeroHasAllSlotsAtTheEndThoughOthersAreGone) {
  RankSettings settings = ShardedBy();
  settings.end_step = 3;
  const TrainingState start = StartState(TestSpecs());
  const std::string expected = DigestOf(Trained(3, start, {}, 3));
  MakeAll(3, start, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(3); });
  ranks_[1]->Kill();
  ranks_[2]->Kill();
  EXPECT_EQ(DigestOf(ranks_[0]->State()), expected);
  EXPECT_EQ(DigestOf(ranks_[0]->State()), expected);
}

TEST_F(ShardedSlotsTest, ARankLostBehindTheLastStepTakesAllBackToTheCheckpoint) {
  RankSettings settings = ShardedBy();
  settings.end_step = 3;
  const TrainingState start = StartState(TestSpecs());
  const std::string expected = DigestOf(Trained(2, start, {}, 3));
  MakeAll(2, start, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(2); });
  ranks_[0]->Push();
  ASSERT_TRUE(ranks_[1]->Train(3).ok());
  ranks_[1]->Kill();  // before rank 0 has asked for the slots
  ranks_[1] = Make(1, 2, Copy(start), settings);
  OnAll([this](Rank& rank) {
    if (&rank == ranks_[1].get()) return rank.StartAndTrain(3);
    const absl::Status awaited = rank.Await();
    return awaited.ok() ? rank.Train(3) : awaited;
  });
  ASSERT_EQ(ranks_[0]->redone().size(), 1U);
  EXPECT_EQ(ranks_[0]->redone()[0].from, 0);
  EXPECT_EQ(ranks_[0]->redone()[0].to, 3);
  EXPECT_EQ(DigestOf(ranks_[0]->State()), expected);
}

TEST_F(ShardedSlotsTest, SlotsOfARankThatIsLostCannotBeHad) {
  MakeAll(3, StartState(TestSpecs()), ShardedBy());
  OnAll([](Rank& rank) { return rank.StartAndTrain(1); });
  ranks_[2]->Kill();
  const absl::Status lost = ranks_[0]->TryState().status();
  EXPECT_TRUE(IsRolledBack(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("rank"));
}

TEST_F(ShardedSlotsTest, OneRankThatDoesNotShardIsRefused) {
  ranks_.push_back(Make(0, 2, StartState(TestSpecs()), ShardedBy()));
  ranks_.push_back(Make(1, 2, StartState(TestSpecs()), {.algorithm = AllReduceAlgorithm::kDirect}));
  std::thread first([this] { (void)ranks_[0]->Start(); });
  const absl::Status refused = ranks_[1]->Start();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("shardOptimizer differs"));
  ranks_[1] = nullptr;
  ranks_[1] = Make(1, 2, StartState(TestSpecs()), ShardedBy());
  EXPECT_TRUE(ranks_[1]->Start().ok());
  first.join();
}

}  // namespace
}  // namespace trainyard::engine
