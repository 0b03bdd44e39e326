#include "trainer/train/allreduce_updater.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/profile/span_log.h"
#include "trainer/train/test_allreduce_ranks.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

class AllReduceUpdaterTest : public AllReduceRanksTest {};

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

TEST_F(AllReduceUpdaterTest, RanksWithDevicesEndWithTheBitsOfAsManyRanks) {
  for (const bool sharded : {false, true}) {
    for (const auto& [ranks, devices] : {std::pair(1, 2), std::pair(1, 3), std::pair(2, 2), std::pair(3, 2)}) {
      const auto bits = [&](int of_ranks, int of_devices) {
        ranks_.clear();
        Make(of_ranks, {.shard_optimizer = sharded, .devices = of_devices});
        OnAll([](Rank& rank) { return rank.StartAndTrain(4); });
        return ranks_[0]->Sha256();
      };
      EXPECT_EQ(bits(ranks, devices), bits(ranks * devices, 1)) << ranks << " ranks of " << devices;
    }
  }
}

// In step 1 rank 1 lists no rows, in step 2 no rank has touched any.
std::optional<std::vector<int32_t>> TouchedIn(int rank, int64_t step) {
  if (step == 1 && rank == 1) return std::nullopt;
  if (step == 2) return std::vector<int32_t>();
  std::vector<int32_t> rows;
  for (int32_t row = rank; row < 330; row += 15 + static_cast<int32_t>(step)) rows.push_back(row);
  return rows;
}

TEST_F(AllReduceUpdaterTest, GradientsThatTravelByRowsLeaveTheBitsOfWholeOnes) {
  struct Case {
    int ranks;
    std::string optimizer;
    AllReduceAlgorithm algorithm;
  };
  for (const Case& c : {Case{2, "sgd", AllReduceAlgorithm::kDirect}, Case{3, "momentum", AllReduceAlgorithm::kHalvingDoubling},
                        Case{4, "sgd", AllReduceAlgorithm::kHierarchical}}) {
    const auto train = [&](bool by_rows) {
      RankSettings settings{.algorithm = c.algorithm, .per_node = 2, .optimizer = TestOptimizer(), .rows = TouchedIn, .by_rows = by_rows};
      settings.optimizer.name = c.optimizer;
      ranks_.clear();
      for (int rank = 0; rank < c.ranks; ++rank) {
        TrainingState start = StartState(TestSpecs());
        if (c.optimizer == "sgd") start.slots.clear();
        ranks_.push_back(Make(rank, c.ranks, std::move(start), settings));
      }
      OnAll([](Rank& rank) { return rank.StartAndTrain(4); });
      for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), ranks_[0]->Sha256());
      return std::pair(ranks_[0]->Sha256(), ranks_[0]->updater().bytes_sent());
    };
    const auto [whole, whole_bytes] = train(false);
    const auto [by_rows, row_bytes] = train(true);
    EXPECT_EQ(by_rows, whole) << c.ranks << " ranks, " << c.optimizer;
    EXPECT_LT(row_bytes, whole_bytes * 3 / 4);
  }
}

TEST_F(AllReduceUpdaterTest, ALostRankLeavesTheBitsWhereRowsTravel) {
  const RankSettings settings{.rows = TouchedIn, .by_rows = true};
  Make(3, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(4); });
  const std::string expected = ranks_[0]->Sha256();
  ranks_.clear();
  Make(3, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(1); });
  ranks_[2]->Kill();
  ranks_[2] = Make(2, 3, StartState(TestSpecs()), settings);
  OnAll([&](Rank& rank) { return &rank == ranks_[2].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), expected);
}

TEST_F(AllReduceUpdaterTest, EachBucketOfTheProfiledStepsIsWrittenDownAndTheWaitForTheLast) {
  SpanLog log({.begin = 1, .end = 3}, RealClock());
  log.Reserve(100);
  ranks_.push_back(Make(0, 2, StartState(TestSpecs()), {.profile = &log}));
  ranks_.push_back(Make(1, 2, StartState(TestSpecs())));
  OnAll([](Rank& rank) { return rank.StartAndTrain(4); });
  std::map<int64_t, std::vector<Span>> buckets;
  for (const Span& span : log.spans()) {
    EXPECT_LE(span.start, span.end);
    if (span.kind == SpanKind::kBucket) buckets[span.step].push_back(span);
    if (span.kind == SpanKind::kWait) {
      EXPECT_LE(buckets[span.step].back().end, span.end);
    }
  }
  const size_t names = ranks_[0]->bucket_names().size();
  EXPECT_THAT(buckets, ElementsAre(Pair(1, SizeIs(names)), Pair(2, SizeIs(names))));
  EXPECT_EQ(log.size(), 2 * (names + 1));
  ranks_.clear();  // before the log
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

TEST_F(AllReduceUpdaterTest, ARankThatNeverComesBackIsNamedWithTheStepThatItWasLostIn) {
  Make(2, {.peer = absl::Seconds(2)});
  OnAll([](Rank& rank) { return rank.StartAndTrain(3); });
  ranks_[1]->Kill();
  const absl::Status status = ranks_[0]->Train(4);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has not joined; the group broke at step 3: rank 1 (rank-1) is lost"));
}

TEST_F(AllReduceUpdaterTest, ALostRankZeroTakesOverWhatTheOthersHave) {
  for (const int ranks : {2, 3, 5}) {
    ranks_.clear();
    Make(ranks);
    OnAll([](Rank& rank) { return rank.StartAndTrain(5); });
    const TrainingState undisturbed = ranks_[0]->State();
    ranks_.clear();
    Make(ranks);
    OnAll([](Rank& rank) { return rank.StartAndTrain(3); });
    ranks_[0]->Kill();
    ranks_[0] = Make(0, ranks, StartState(TestSpecs()));
    OnAll([this](Rank& rank) { return &rank == ranks_[0].get() ? rank.StartAndTrain(5) : rank.Train(5); });
    EXPECT_EQ(ranks_[0]->start().worker_step, 3);
    EXPECT_TRUE(ranks_[0]->start().joined && ranks_[0]->start().again);
    EXPECT_EQ(ranks_[0]->redone().size(), 0U);
    EXPECT_EQ(ranks_[0]->loaded_again(), 0);
    for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), undisturbed.parameters.Sha256Hex()) << ranks;
    EXPECT_EQ(ranks_[0]->State().slots[0].Sha256Hex(), undisturbed.slots[0].Sha256Hex());
  }
}

TEST_F(AllReduceUpdaterTest, OneRankThatIsLeftGivesItsStateToAll) {
  Make(3);
  OnAll([](Rank& rank) { return rank.StartAndTrain(3); });
  for (const int rank : {0, 1}) {
    ranks_[rank]->Kill();
    ranks_[rank] = Make(rank, 3, StartState(TestSpecs()));
  }
  OnAll([this](Rank& rank) { return &rank == ranks_[2].get() ? rank.Train(5) : rank.StartAndTrain(5); });
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->start().worker_step, 3);
    EXPECT_EQ(rank->Sha256(), TrainLocally(3, 5).parameters.Sha256Hex());
  }
}

TEST_F(AllReduceUpdaterTest, ACheckpointThatIsFurtherThanAllRanksIsTaken) {
  Make(2);
  OnAll([](Rank& rank) { return rank.StartAndTrain(3); });
  TrainingState checkpoint = ranks_[0]->State();
  ranks_.clear();
  Make(2);
  OnAll([](Rank& rank) { return rank.StartAndTrain(2); });
  ranks_[0]->Kill();
  ranks_[0] = Make(0, 2, std::move(checkpoint));
  OnAll([this](Rank& rank) { return &rank == ranks_[0].get() ? rank.StartAndTrain(4) : rank.Train(4); });
  EXPECT_EQ(ranks_[0]->start().worker_step, 3);
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), TrainLocally(2, 4).parameters.Sha256Hex());
}

TEST_F(AllReduceUpdaterTest, ALostRankZeroTakesAllBackToItsCheckpointWhereRanksCarryState) {
  const RankSettings settings{.carries_state = true};
  Make(3, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(1); });
  TrainingState checkpoint = ranks_[0]->State();
  OnAll([](Rank& rank) { return rank.Train(3); });
  ranks_[0]->Kill();
  ranks_[0] = nullptr;
  ranks_[0] = Make(0, 3, std::move(checkpoint), settings);
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
  Make(3, {.end_step = 2});
  OnAll([this](Rank& rank) {
    if (const absl::Status trained = rank.StartAndTrain(2); !trained.ok()) return trained;
    const absl::Status released = &rank == ranks_[0].get() ? rank.updater().Release() : rank.updater().AwaitRelease();
    rank.updater().Done();
    return released;
  });
}

TEST_F(AllReduceUpdaterTest, ARankZeroThatIsLostBehindTheLastStepTakesOverTheResult) {
  const RankSettings settings{.end_step = 2};
  Make(3, settings);
  OnAll([](Rank& rank) { return rank.StartAndTrain(2); });
  ranks_[0]->Kill();
  ranks_[0] = Make(0, 3, StartState(TestSpecs()), settings);
  OnAll([this](Rank& rank) {
    const bool first = &rank == ranks_[0].get();
    absl::Status status = first ? absl::OkStatus() : rank.updater().AwaitRelease();
    EXPECT_EQ(IsRolledBack(status), !first);
    if (status = rank.Start(); !status.ok()) return status;
    EXPECT_EQ(rank.start().worker_step, 2);
    status = first ? rank.updater().Release() : rank.updater().AwaitRelease();
    rank.updater().Done();
    return status;
  });
  for (const auto& rank : ranks_) EXPECT_EQ(rank->Sha256(), TrainLocally(3, 2).parameters.Sha256Hex());
}

TEST_F(AllReduceUpdaterTest, AChiefThatFindsTheTrainingFinishedNeedsNobody) {
  TrainingState checkpoint = StartState(TestSpecs());
  checkpoint.step = 2;
  ranks_.push_back(Make(0, 2, std::move(checkpoint), {.end_step = 2}));
  ASSERT_TRUE(ranks_[0]->Start().ok());
  EXPECT_TRUE(ranks_[0]->start().finished);
  EXPECT_TRUE(ranks_[0]->updater().Release().ok());  // the other one may have ended long ago
}

}  // namespace
}  // namespace trainyard::engine
