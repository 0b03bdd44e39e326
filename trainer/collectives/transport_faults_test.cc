// A network that delays, drops, doubles, reorders or cuts parts of sums: each sum is exact, or
// there is an error that names what is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/collectives/test_algorithms.h"
#include "trainer/collectives/test_faulty_transport.h"
#include "trainer/collectives/test_ranks.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSteps = 3;

class TransportFaultsTest : public RanksTest {
 protected:
  ~TransportFaultsTest() override { ranks_.clear(); }

  void MakeFaulty(int ranks, AllReduceAlgorithm algorithm, Fault fault, int at) {
    ranks_.clear();
    plan_.fault = fault;
    plan_.at = at;
    plan_.parts = 0;
    hosts_ = Addresses(GetParam().name, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      RankGroupOptions options = Options(rank, algorithm);
      options.heartbeat_period = absl::Milliseconds(10);  // lets go what is delayed
      if (fault == Fault::kDrop) options.timeouts.peer = absl::Milliseconds(300);
      ranks_.push_back(std::make_unique<TestRank>(options, faulty_));
    }
    FormAll();
  }

  // Steps until an error; the first error of each rank. Sums of steps without one are exact.
  std::vector<absl::Status> Reduce(AllReduceAlgorithm algorithm, size_t size, size_t buckets) {
    std::vector<absl::Status> statuses(ranks_.size());
    OnAll([&](TestRank& rank, int index) {
      rank.Plan(algorithm, size, buckets);
      for (int64_t step = 0; step < kSteps && statuses[index].ok(); ++step) {
        statuses[index] = rank.Reduce(step);
        if (!statuses[index].ok()) return;
        const std::vector<float> expected = SumOf(static_cast<int>(ranks_.size()), size, step, [](int) { return true; });
        for (size_t bucket = 0; bucket < buckets; ++bucket) EXPECT_EQ(rank.result(bucket), expected) << "rank " << index;
      }
    });
    return statuses;
  }

  static size_t CountErrors(const std::vector<absl::Status>& statuses) {
    return static_cast<size_t>(std::ranges::count_if(statuses, [](const absl::Status& status) { return !status.ok(); }));
  }
  static std::string Text(const std::vector<absl::Status>& statuses) {
    std::string text;
    for (const absl::Status& status : statuses) text += status.ToString() + "\n";
    return text;
  }

  FaultPlan plan_;
  FaultyTransport faulty_{*transport_, plan_};
};

TEST_P(TransportFaultsTest, LateAndReorderedPartsChangeNoSum) {
  for (const Fault fault : {Fault::kDelay, Fault::kReorder}) {
    for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
      for (const int ranks : {2, 3, 5, 16}) {
        if (GetParam().name != "Inproc" && ranks > 5) continue;  // seconds
        MakeFaulty(ranks, algorithm, fault, 0);
        for (const size_t size : {1, 100, 10'000}) {
          if (size != 100 && ranks == 16) continue;
          const std::vector<absl::Status> statuses = Reduce(algorithm, size, /*buckets=*/3);
          EXPECT_EQ(CountErrors(statuses), 0U) << Text(statuses);
          MakeFaulty(ranks, algorithm, fault, 0);  // steps count from 0 in a group
        }
      }
    }
  }
}

TEST_P(TransportFaultsTest, APartThatIsLostIsNamedWithinTheDeadline) {
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 5}) {
      MakeFaulty(ranks, algorithm, Fault::kDrop, ranks);
      const std::vector<absl::Status> statuses = Reduce(algorithm, 1'000, /*buckets=*/2);
      EXPECT_EQ(CountErrors(statuses), statuses.size()) << "no step behind it can be done\n" << Text(statuses);
      const auto late = std::ranges::find_if(statuses, [](const absl::Status& status) { return absl::IsDeadlineExceeded(status); });
      ASSERT_NE(late, statuses.end()) << Text(statuses);
      EXPECT_THAT(late->ToString(), HasSubstr("of all-reduce of step ")) << Text(statuses);
    }
  }
}

TEST_P(TransportFaultsTest, APartThatComesTwiceIsRefused) {
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 5}) {
      MakeFaulty(ranks, algorithm, Fault::kDuplicate, ranks);
      const std::vector<absl::Status> statuses = Reduce(algorithm, 1'000, /*buckets=*/2);
      EXPECT_GT(CountErrors(statuses), 0U);
      const bool named = Text(statuses).find("came twice") != std::string::npos ||
                         Text(statuses).find("which is done") != std::string::npos ||
                         Text(statuses).find("expected step") != std::string::npos;
      EXPECT_TRUE(named) << Text(statuses);
    }
  }
}

TEST_P(TransportFaultsTest, AStreamThatIsCutEndsTheGroupAndTheNextOneIsExact) {
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 5}) {
      MakeFaulty(ranks, algorithm, Fault::kCut, ranks);
      const std::vector<absl::Status> cut = Reduce(algorithm, 1'000, /*buckets=*/2);
      EXPECT_GT(CountErrors(cut), 0U);
      for (const absl::Status& status : cut) {
        if (status.ok()) continue;
        EXPECT_TRUE(absl::IsAborted(status)) << status;
        EXPECT_THAT(status.ToString(), HasSubstr("rank "));
      }
      FormAll();
      const std::vector<absl::Status> again = Reduce(algorithm, 1'000, /*buckets=*/2);
      EXPECT_EQ(CountErrors(again), 0U) << Text(again);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, TransportFaultsTest, ::testing::Values(kInproc, kShared, kGrpc),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace trainyard::engine
