// Ranks that are lost, silent, slow or wrong: every wait ends, and the error names rank, operation,
// bucket and step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "trainer/base/notification.h"
#include "trainer/collectives/test_ranks.h"
#include "trainer/transport/test_deadline.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

// Lets seconds go by in no time.
class PassingTime {
 public:
  explicit PassingTime(FakeClock& clock)
      : thread_([&clock, this] {
          while (!ended_) {
            clock.Advance(absl::Seconds(1));
            std::this_thread::yield();
          }
        }) {}
  PassingTime(const PassingTime&) = delete;
  PassingTime& operator=(const PassingTime&) = delete;
  ~PassingTime() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

TEST_P(RanksTest, ALostRankEndsTheGroupForAllAndTheNextOneForms) {
  constexpr int kRanks = 4;
  for (const AllReduceAlgorithm algorithm : {AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling}) {
    for (int killed = 0; killed < kRanks; ++killed) {
      MakeRanks(kRanks, algorithm);
      FormAll();
      std::atomic<int> began = 0;
      OnAll([&](TestRank& rank, int index) {
        rank.Plan(algorithm, 1'000, 3);
        EXPECT_TRUE(rank.Reduce(0).ok());
        if (index == killed) {
          rank.Begin(1);
          rank.Give(0, 1);
          while (began < kRanks - 1) std::this_thread::yield();
          rank.Kill();
          return;
        }
        rank.Begin(1);
        ++began;
        for (size_t i = 0; i < 3; ++i) rank.Give(i, 1);
        const absl::Status status = rank.Wait().status();
        EXPECT_TRUE(absl::IsAborted(status)) << status;
        EXPECT_THAT(Text(status), HasSubstr(absl::StrCat("rank ", killed))) << index;
        EXPECT_THAT(Text(status), HasSubstr("step 1"));
      });
      ranks_[killed] = nullptr;
      ranks_[killed] = std::make_unique<TestRank>(Options(killed, algorithm), *transport_);
      FormAll(1);
      OnAll([&](TestRank& rank, int) {
        rank.Plan(algorithm, 1'000, 3);
        const absl::Status reduced = rank.Reduce(1);
        EXPECT_TRUE(reduced.ok()) << reduced;
      });
      for (const auto& rank : ranks_) EXPECT_EQ(rank->result(), SumOf(kRanks, 1'000, 1, [](int) { return true; }));
    }
  }
}

TEST_P(RanksTest, AnAbsentRankIsNamed) {
  hosts_ = Addresses(GetParam().name, 3);
  for (const int rank : {0, 1}) {
    RankGroupOptions options = Options(rank);
    options.timeouts.connect = absl::Milliseconds(500);
    ranks_.push_back(std::make_unique<TestRank>(options, *transport_));
  }
  const absl::Status first = ranks_[0]->Form();
  EXPECT_TRUE(absl::IsDeadlineExceeded(first));
  EXPECT_THAT(Text(first), AllOf(HasSubstr("rank 0: gather"), HasSubstr("rank 2 (" + hosts_[2] + "): has not joined")));
  ranks_[0]->Kill();
  const absl::Status second = ranks_[1]->Form();
  EXPECT_TRUE(absl::IsDeadlineExceeded(second));
  EXPECT_THAT(Text(second), AllOf(HasSubstr("rank 1: join"), HasSubstr("rank 0 (" + hosts_[0] + ")")));
}

TEST_P(RanksTest, ASilentRankIsNamedWithOperationBucketAndStep) {
  FakeClock clock;
  MakeTwoRanks(clock);
  FormAll();
  TestRank& waiting = *ranks_[0];
  waiting.Plan(AllReduceAlgorithm::kDirect, 100, 2);
  std::thread waiter([&] {
    const absl::Status status = waiting.Reduce(7);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(Text(status), HasSubstr("nothing within 30s of all-reduce of step 7, bucket 0 'tensor 0': rank 1"));
  });
  {
    const PassingTime time(clock);
    waiter.join();
  }
  ranks_[1]->Plan(AllReduceAlgorithm::kDirect, 100, 2);
  const absl::Status told = ranks_[1]->Reduce(7);
  EXPECT_TRUE(absl::IsAborted(told));
  EXPECT_THAT(Text(told), AllOf(HasSubstr("rank 0"), HasSubstr("nothing within 30s")));
  ranks_.clear();
}

// A process of this machine reads values where they lie. It may stop before it has.
TEST_P(RanksTest, ARankThatHasNotReadTheValuesOfADoneStepIsNamed) {
  FakeClock clock;
  Notification told;
  MakeTwoRanks(clock, [&told](const std::string& waiting) {
    if (absl::EndsWith(waiting, ": all-reduce of step 7: values for rank 1, not read yet")) told.Notify();
  });
  FormAll();
  std::shared_ptr<const void> unread = ranks_[0]->group().borrowed().Lend(1);
  OnAll([&](TestRank& rank, int index) {
    rank.Plan(AllReduceAlgorithm::kDirect, 100, 2);
    if (index == 0) {
      const absl::Status reduced = rank.Reduce(7);
      EXPECT_TRUE(absl::IsDeadlineExceeded(reduced)) << reduced;
      EXPECT_THAT(Text(reduced), HasSubstr("nothing within 30s of all-reduce of step 7: values for rank 1, not read yet"));
      return;
    }
    EXPECT_TRUE(rank.Reduce(7).ok());
    const absl::Time end = RealClock().Now() + kSoon;
    while (!told.WaitForNotificationWithTimeout(absl::Milliseconds(20)) && RealClock().Now() < end) clock.Advance(absl::Seconds(1));
    EXPECT_TRUE(told.HasBeenNotified());
    clock.Advance(absl::Seconds(30));
    rank.group().AwaitApart(kSoon);
    unread = nullptr;
  });
  ranks_.clear();
}

TEST_P(RanksTest, ARankThatHasNotReadTheResultsThatRestIsNamed) {
  FakeClock clock;
  MakeTwoRanks(clock);
  FormAll();
  std::shared_ptr<const void> unread = ranks_[0]->group().results().Lend(1);
  OnAll([&](TestRank& rank, int index) {
    rank.Plan(AllReduceAlgorithm::kDirect, 100, 2);
    rank.LetResultsRest();
    EXPECT_TRUE(rank.Reduce(7).ok());
    if (index == 1) {
      EXPECT_TRUE(rank.group().AwaitReaders().ok());
    }
  });
  const PassingTime time(clock);
  const absl::Status read = ranks_[0]->group().AwaitReaders();
  EXPECT_TRUE(absl::IsDeadlineExceeded(read)) << read;
  EXPECT_THAT(Text(read), HasSubstr("step 7: values for rank 1, not read yet"));
  unread = nullptr;
  ranks_.clear();
}

TEST_P(RanksTest, ARankThatIsAtWorkIsWaitedForAndSoAreThoseThatWaitForIt) {
  hosts_ = Addresses(GetParam().name, 4);
  for (int rank = 0; rank < 4; ++rank) {
    RankGroupOptions options = Options(rank, AllReduceAlgorithm::kHalvingDoubling);
    options.timeouts.peer = absl::Seconds(2);
    options.heartbeat_period = absl::Milliseconds(50);
    ranks_.push_back(std::make_unique<TestRank>(options, *transport_));
  }
  FormAll();
  OnAll([&](TestRank& rank, int index) {
    rank.Plan(AllReduceAlgorithm::kHalvingDoubling, 100);
    if (index == 0) {
      const absl::Time end = RealClock().Now() + absl::Seconds(4);
      while (RealClock().Now() < end) {
        rank.group().ShowActivity();
        Notification().WaitForNotificationWithTimeout(absl::Milliseconds(20));
      }
    }
    const absl::Status reduced = rank.Reduce(0);
    EXPECT_TRUE(reduced.ok()) << reduced;  // rank 3 waits for rank 2, which waits for rank 0
  });
}

TEST_P(RanksTest, RanksWithOtherModelsAreRefusedByName) {
  hosts_ = Addresses(GetParam().name, 2);
  RankGroupOptions options = Options(0);
  options.timeouts.connect = absl::Seconds(2);
  TestRank first(options, *transport_);
  std::thread gathering([&] { EXPECT_TRUE(absl::IsDeadlineExceeded(first.Form())); });
  options = Options(1);
  options.agreement = {{"the seed", "2"}};
  {
    TestRank other(options, *transport_);
    const absl::Status refused = other.Form();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_THAT(Text(refused), HasSubstr("the seed differs: rank 0 has 1, rank 1 has 2; start all ranks with the same job file"));
  }
  options = Options(1);
  options.fingerprint = 43;
  {
    TestRank other(options, *transport_);
    EXPECT_THAT(Text(other.Form()), HasSubstr("the model differs: rank 0 has 000000000000002a, rank 1 has 000000000000002b"));
  }
  gathering.join();
}

TEST_P(RanksTest, RanksThatDoOtherOperationsAreNamed) {
  struct Case {
    size_t size;
    size_t buckets;
    int64_t step;
    std::string expected;
  };
  for (const Case& other :
       {Case{101, 2, 3, "bucket 'tensor [01]': found 20[04] bytes at [0-9]+ of 1 devices, type 0, expected 20[04] bytes at "},
        Case{100, 3, 3, "a part of bucket 2, expected below 2"}, Case{100, 2, 2, "a part of step 2"}}) {
    MakeRanks(2);
    FormAll();
    ranks_[0]->Plan(AllReduceAlgorithm::kDirect, 100, 2);
    ranks_[1]->Plan(AllReduceAlgorithm::kDirect, other.size, other.buckets);
    absl::Status statuses[2];
    OnAll([&](TestRank& rank, int index) {
      const int64_t step = index == 0 ? 3 : other.step;
      statuses[index] = rank.Reduce(step);
      if (statuses[index].ok()) statuses[index] = rank.Reduce(step + 1);  // it had what it needed before it saw more
    });
    EXPECT_FALSE(statuses[0].ok());
    EXPECT_FALSE(statuses[1].ok());
    const std::string both = Text(statuses[0]) + "\n" + Text(statuses[1]);
    EXPECT_THAT(both,
                AnyOf(ContainsRegex(other.expected), HasSubstr("a part of step 3, which is done"), HasSubstr("a part of step 3 of group")));
    EXPECT_TRUE(absl::IsInvalidArgument(statuses[0]) || absl::IsInvalidArgument(statuses[1])) << both;
  }
}

TEST_P(RanksTest, APartOfAnEarlierStepThatCameBeforeTheStepBeganIsRefused) {
  MakeRanks(2);
  FormAll();
  for (const auto& rank : ranks_) rank->Plan(AllReduceAlgorithm::kDirect, 100);
  const auto received = [this] { return ranks_[0]->group().traffic().bytes_received; };
  const int64_t before = received();
  ranks_[1]->Begin(2);
  ranks_[1]->Give(0, 2);
  const absl::Time deadline = absl::Now() + kSoon;
  while (received() < before + 200 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_GE(received(), before + 200);
  const absl::Status status = ranks_[0]->Reduce(3);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(Text(status), HasSubstr("rank 1 (" + hosts_[1] + "): a part of step 2 of group"));
  EXPECT_THAT(Text(status), HasSubstr("expected step 3 or later"));
  EXPECT_FALSE(ranks_[1]->Wait().ok());
}

TEST_P(RanksTest, RankZeroEndsTheTrainingInTheMiddleOfAStepOfOthers) {
  MakeRanks(3, AllReduceAlgorithm::kHalvingDoubling);
  FormAll();
  OnAll([&](TestRank& rank, int index) {
    rank.Plan(AllReduceAlgorithm::kHalvingDoubling, 1'000);
    EXPECT_TRUE(rank.Reduce(0).ok());
    if (index == 0) {
      rank.group().End(1);
      rank.group().Release();
      rank.group().Done();
      return;
    }
    rank.Begin(1);
    rank.Give(0, 1);
    const absl::StatusOr<Waited> waited = rank.Wait();
    ASSERT_TRUE(waited.ok()) << waited.status();
    EXPECT_TRUE(waited->ended);
    rank.group().FinishHere();
    EXPECT_TRUE(rank.group().AwaitRelease().ok());
    rank.group().Done();
  });
}

TEST_P(RanksTest, ARankThatComesBackAfterTheLastStepIsToldSo) {
  MakeRanks(2);
  FormAll();
  OnAll([](TestRank& rank, int) {
    rank.Plan(AllReduceAlgorithm::kAuto, 10);
    EXPECT_TRUE(rank.Reduce(4).ok());
  });
  ranks_[0]->group().Finish(5);
  ranks_[1] = nullptr;
  ranks_[1] = std::make_unique<TestRank>(Options(1), *transport_);
  const absl::StatusOr<Formed> formed = ranks_[1]->group().Join({});
  ASSERT_TRUE(formed.ok()) << formed.status();
  EXPECT_TRUE(formed->finished);
  EXPECT_EQ(formed->step, 5);
  std::thread first([&] {
    ranks_[0]->group().Release();
    ranks_[0]->group().Done();
  });
  EXPECT_TRUE(ranks_[1]->group().AwaitRelease().ok());
  ranks_[1]->group().Done();
  first.join();
}

TEST_P(RanksTest, AReplacementOfRankZeroFindsThoseThatItsPredecessorHasReleased) {
  hosts_ = Addresses(GetParam().name, 3);
  const auto make = [this](int rank) {
    RankGroupOptions options = Options(rank);
    options.timeouts.peer = options.timeouts.silence = absl::Hours(1);  // a wait for ranks that are gone would be seen
    return std::make_unique<TestRank>(options, *transport_);
  };
  for (int rank = 0; rank < 3; ++rank) ranks_.push_back(make(rank));
  FormAll();
  OnAll([](TestRank& rank, int) {
    rank.Plan(AllReduceAlgorithm::kAuto, 10);
    EXPECT_TRUE(rank.Reduce(4).ok());
  });
  ranks_[0]->group().Finish(5);
  std::vector<std::thread> others;
  for (const int rank : {1, 2}) {
    others.emplace_back([&group = ranks_[rank]->group()] {
      group.FinishHere();
      EXPECT_TRUE(group.AwaitRelease().ok());
      group.Done();
    });
  }
  ranks_[0]->group().Release();
  ranks_[0] = nullptr;
  ranks_[0] = make(0);
  ranks_[0]->group().Finish(5);
  ranks_[0]->group().Release();
  ranks_[0]->group().Done();
  for (std::thread& other : others) other.join();
}

TEST_P(RanksTest, ARankThatWasAskedToStopDoesNotWaitForOthers) {
  hosts_ = Addresses(GetParam().name, 2);
  std::atomic<bool> stopping = false;
  for (const int rank : {0, 1}) {
    RankGroupOptions options = Options(rank);
    options.timeouts.stop = absl::Milliseconds(100);
    options.stopping = [&stopping] { return stopping.load(); };
    ranks_.push_back(std::make_unique<TestRank>(options, *transport_));
  }
  FormAll();
  ranks_[0]->Plan(AllReduceAlgorithm::kAuto, 10);
  stopping = true;
  const absl::Status stopped = ranks_[0]->Reduce(0);
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  EXPECT_THAT(Text(stopped), HasSubstr("all-reduce of step 0, bucket 0 'tensor 0': rank 1"));
  EXPECT_TRUE(absl::IsCancelled(ranks_[1]->group().Join({}).status()));
}

}  // namespace
}  // namespace trainyard::engine
