#include "trainer/collectives/measure_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "trainer/collectives/test_ranks.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

// Every look at it is an hour later.
class HurriedClock final : public Clock {
 public:
  absl::Time Now() override { return absl::UnixEpoch() + ++looks_ * absl::Hours(1); }
  absl::Time Wall() override { return Now(); }

 private:
  std::atomic<int> looks_ = 0;
};

class MeasureNetworkTest : public RanksTest {
 protected:
  // Every rank's result; all succeed.
  std::vector<MeasuredNetwork> MeasureAll(const std::function<Clock&(int)>& clock = [](int) -> Clock& { return RealClock(); }) {
    std::vector<MeasuredNetwork> measured(ranks_.size());
    OnAll([&](TestRank& rank, int index) {
      const absl::StatusOr<MeasuredNetwork> found = MeasureNetwork(rank.group(), {.rank = index, .clock = &clock(index)});
      ASSERT_TRUE(found.ok()) << found.status();
      measured[index] = *found;
    });
    return measured;
  }
  void ExpectEqualChoices(const std::vector<MeasuredNetwork>& measured) {
    for (const MeasuredNetwork& of_rank : measured) {
      EXPECT_EQ(of_rank.choice, measured[0].choice);
      EXPECT_EQ(of_rank.cost.latency, measured[0].cost.latency);
    }
  }
};

TEST_P(MeasureNetworkTest, AllRanksChooseAlikeAndGoOnWithTheFirstStep) {
  for (const int ranks : {1, 2, 3, 6}) {
    MakeRanks(ranks);
    FormAll();
    const std::vector<MeasuredNetwork> measured = MeasureAll();
    ExpectEqualChoices(measured);
    EXPECT_EQ(measured[0].cost.latency > 0, ranks > 1);
    OnAll([&](TestRank& rank, int index) {
      rank.Plan(measured[index].choice.Of(400), 100);
      const absl::Status reduced = rank.Reduce(0);
      EXPECT_TRUE(reduced.ok()) << reduced;
      EXPECT_EQ(rank.result(), SumOf(ranks, 100, 0, [](int) { return true; }));
    });
  }
}

TEST_P(MeasureNetworkTest, NodesOfSeveralRanksAreMeasuredToo) {
  per_node_ = 2;
  MakeRanks(6);
  FormAll();
  const std::vector<MeasuredNetwork> measured = MeasureAll();
  ExpectEqualChoices(measured);
  for (const AllReduceAlgorithm chosen : {measured[0].choice.small, measured[0].choice.large}) {
    EXPECT_NE(chosen, AllReduceAlgorithm::kHalvingDoubling);
  }
}

TEST_P(MeasureNetworkTest, OneRankWithoutTimeEndsTheMeasurementOfAll) {
  MakeRanks(3);
  FormAll();
  HurriedClock hurried;
  const std::vector<MeasuredNetwork> measured = MeasureAll([&](int rank) -> Clock& { return rank == 1 ? hurried : RealClock(); });
  ExpectEqualChoices(measured);
  EXPECT_EQ(measured[0].cost.direct_byte, 0) << "there was time for large ones";
  EXPECT_LT(ranks_[0]->group().traffic().bytes_sent, 20'000);
}

TEST_P(MeasureNetworkTest, ARankThatIsLostMeanwhileIsNamedAndTheNextGroupMeasuresAnew) {
  MakeRanks(3);
  FormAll();
  OnAll([](TestRank& rank, int index) {
    if (index == 2) return rank.Kill();  // the first exchange misses it
    const absl::Status lost = MeasureNetwork(rank.group(), {.rank = index}).status();
    EXPECT_TRUE(absl::IsAborted(lost)) << lost;
    EXPECT_THAT(std::string(lost.message()), HasSubstr("rank 2"));
  });
  ranks_[2] = std::make_unique<TestRank>(Options(2), *transport_);
  FormAll(7);
  ExpectEqualChoices(MeasureAll());
}

INSTANTIATE_TEST_SUITE_P(Transports, MeasureNetworkTest, ::testing::Values(kInproc, kShared, kGrpc),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace trainyard::engine
