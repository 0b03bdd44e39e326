// Ranks whose copies are in the memory of their devices have the same bits as each other, and end
// where ranks with copies on the host end. A change of devices takes the state along.
#include "trainer/train/rank_copy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "trainer/optim/make_optimizer.h"
#include "trainer/train/test_allreduce_ranks.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kGpu = "a GPU";

TrainingState StartStateFor(const OptimizerConfig& optimizer) {
  TrainingState state = StartState(TestSpecs());
  state.slots.clear();
  for (size_t slot = 0; slot < (*MakeOptimizer(optimizer))->slot_names().size(); ++slot) state.slots.emplace_back(TestSpecs());
  return state;
}

void ExpectClose(const ParameterSet& found, const ParameterSet& expected) {
  for (int key = 0; key < expected.size(); ++key) {
    for (size_t i = 0; i < expected.values(key).size(); ++i) {
      const float value = expected.values(key)[i];
      ASSERT_NEAR(found.values(key)[i], value, 1e-5 * std::max(1.0F, std::abs(value))) << expected.spec(key).name << " " << i;
    }
  }
}

class RankCopyTest : public AllReduceRanksTest {
 protected:
  // The state of rank 0 behind `steps` steps of ranks that all have these bits.
  TrainingState Train(int ranks, const RankSettings& settings, int64_t steps) {
    ranks_.clear();
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(Make(rank, ranks, StartStateFor(settings.optimizer), settings));
    OnAll([&](Rank& rank) { return rank.StartAndTrain(steps); });
    TrainingState state = ranks_[0]->State();
    for (const auto& rank : ranks_) {
      EXPECT_EQ(rank->Sha256(), state.parameters.Sha256Hex());
      const TrainingState own = rank->State();
      for (size_t slot = 0; slot < own.slots.size(); ++slot) EXPECT_EQ(own.slots[slot].Sha256Hex(), state.slots[slot].Sha256Hex());
    }
    return state;
  }
  // Rank `rank` starts anew from `checkpoint` on another kind of device, while the others go on.
  void Replace(size_t rank, TrainingState checkpoint, const RankSettings& settings, int64_t until) {
    ranks_[rank]->Kill();
    ranks_[rank] = nullptr;
    ranks_[rank] = Make(static_cast<int>(rank), static_cast<int>(ranks_.size()), std::move(checkpoint), settings);
    OnAll([&](Rank& each) { return &each == ranks_[rank].get() ? each.StartAndTrain(until) : each.Train(until); });
  }

  const RankSettings on_device_{.device_kind = std::string(kGpu)};
  const RankSettings elsewhere_{.device_kind = "another GPU"};
};

TEST_F(RankCopyTest, EveryOptimizerOnDevicesEndsWhereTheHostsEnds) {
  for (const std::string_view name : OptimizerNames()) {
    SCOPED_TRACE(name);
    RankSettings settings{.optimizer = DefaultOptimizerConfig(name)};
    const TrainingState expected = Train(2, settings, 3);
    settings.device_kind = kGpu;
    const TrainingState found = Train(2, settings, 3);
    EXPECT_EQ(found.step, 3);
    ExpectClose(found.parameters, expected.parameters);
    ASSERT_EQ(found.slots.size(), expected.slots.size());
    for (size_t slot = 0; slot < found.slots.size(); ++slot) ExpectClose(found.slots[slot], expected.slots[slot]);
    EXPECT_NE(found.parameters.Sha256Hex(), StartState(TestSpecs()).parameters.Sha256Hex());
  }
}

TEST_F(RankCopyTest, AnyNumberOfRanksEndsThere) {
  for (const int ranks : {1, 3, 4}) {
    SCOPED_TRACE(ranks);
    const TrainingState found = Train(ranks, on_device_, 3);
    ExpectClose(found.parameters, Train(ranks, {}, 3).parameters);
  }
}

TEST_F(RankCopyTest, ALostRankTakesOverWhatTheDeviceOfRankZeroHas) {
  const std::string expected = Train(3, on_device_, 4).parameters.Sha256Hex();
  Train(3, on_device_, 2);
  ranks_[2]->Push(1);
  Replace(2, StartState(TestSpecs()), on_device_, 4);
  EXPECT_EQ(ranks_[2]->start().worker_step, 2);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), expected);
}

TEST_F(RankCopyTest, ALostRankZeroTakesOverWhatTheOtherDevicesHave) {
  const std::string expected = Train(3, on_device_, 4).parameters.Sha256Hex();
  Train(3, on_device_, 3);
  Replace(0, StartState(TestSpecs()), on_device_, 4);
  EXPECT_EQ(ranks_[0]->start().worker_step, 3);
  EXPECT_EQ(ranks_[0]->redone().size(), 0U);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), expected);
}

TEST_F(RankCopyTest, AStepWithoutExamplesChangesNothingButItsNumber) {
  const std::string before = Train(2, on_device_, 2).parameters.Sha256Hex();
  OnAll([](Rank& rank) {
    rank.PushNothing();
    return rank.Await();
  });
  EXPECT_EQ(ranks_[0]->State().step, 3);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), before);
}

TEST_F(RankCopyTest, RanksWithSeveralKindsOfDevicesUpdateOnTheHost) {
  ranks_.push_back(Make(0, 3, StartState(TestSpecs()), on_device_));
  ranks_.push_back(Make(1, 3, StartState(TestSpecs()), elsewhere_));
  ranks_.push_back(Make(2, 3, StartState(TestSpecs())));
  OnAll([](Rank& rank) { return rank.StartAndTrain(4); });
  const std::string expected = TrainLocally(3, 4).parameters.Sha256Hex();
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), expected);
  for (const int rank : {0, 1}) EXPECT_EQ(ranks_[rank]->DeviceSha256(), expected) << rank;
}

TEST_F(RankCopyTest, AGroupThatGetsAnotherKindTakesItsStateToTheHostAndBack) {
  const TrainingState expected = Train(2, {}, 6);
  Train(2, on_device_, 2);
  Replace(1, StartState(TestSpecs()), elsewhere_, 4);
  EXPECT_EQ(ranks_[1]->Sha256(), ranks_[0]->Sha256());
  EXPECT_EQ(ranks_[0]->DeviceSha256(), ranks_[0]->Sha256());
  Replace(1, StartState(TestSpecs()), on_device_, 6);
  EXPECT_EQ(ranks_[1]->Sha256(), ranks_[0]->Sha256());
  EXPECT_EQ(ranks_[0]->redone().size(), 0U);
  const TrainingState found = ranks_[0]->State();
  EXPECT_EQ(found.step, 6);
  ExpectClose(found.parameters, expected.parameters);
  ExpectClose(found.slots[0], expected.slots[0]);
}

TEST_F(RankCopyTest, SlotBytesAreThoseOfTheDevice) {
  Train(2, on_device_, 1);
  EXPECT_GE(ranks_[0]->updater().slot_bytes(), BytesOf(TestSpecs()));
}

}  // namespace
}  // namespace trainyard::engine
