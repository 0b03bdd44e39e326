#include "operator/progress/progress_poller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <set>
#include <thread>
#include <vector>

#include "operator/base/fake_clock.h"

namespace trainyard::control {
namespace {

// Chiefs that a test lets answer one by one.
class ProgressPollerTest : public testing::Test {
 protected:
  static constexpr int kParallel = 4;

  ProgressFetch Fetch() {
    return [this](const ProgressTarget& target, const std::stop_token& stop) -> absl::StatusOr<std::string> {
      MutexLock lock(mutex_);
      asked_.push_back(target.uid);
      while (hanging_.contains(target.uid) && !stop.stop_requested()) changed_.WaitFor(mutex_, std::chrono::milliseconds(5));
      if (stop.stop_requested()) return absl::CancelledError("stopping");
      if (dead_.contains(target.uid)) return absl::UnavailableError("connection refused");
      if (silent_.contains(target.uid)) return absl::DeadlineExceededError("no answer");
      return answers_[target.uid];
    };
  }
  void Start() { poller_.Start(); }
  static ProgressTarget Chief(const std::string& uid) {
    return {.ns = "default", .name = "mnist-worker-0", .uid = uid, .ip = "10.0.0.1", .port = 5001};
  }
  void Answer(const std::string& uid, int step) {
    MutexLock lock(mutex_);
    answers_[uid] = "{\"step\": " + std::to_string(step) + "}";
  }
  int Asked(const std::string& uid) {
    MutexLock lock(mutex_);
    return static_cast<int>(std::count(asked_.begin(), asked_.end(), uid));
  }
  // With time passing.
  bool Await(const std::function<bool()>& condition, absl::Duration step = absl::Milliseconds(100)) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      clock_.Advance(step);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  FakeClock clock_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> hanging_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> dead_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> silent_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> answers_ ABSL_GUARDED_BY(mutex_);
  ProgressPoller poller_{clock_, Fetch(), {.parallel = kParallel}, [](const std::string&) {}};
};

TEST_F(ProgressPollerTest, ChiefsThatHangCostOnlyTheirOwnNamespaceItsShare) {
  for (int i = 0; i < 20; ++i) {
    const std::string uid = "hang-" + std::to_string(i);
    {
      MutexLock lock(mutex_);
      hanging_.insert(uid);
    }
    poller_.Watch("bad/" + uid, Chief(uid));
  }
  Answer("good", 7);
  Start();
  poller_.Watch("good/job", Chief("good"));
  EXPECT_TRUE(Await([&] { return poller_.Report("good/job").latest.has_value(); }));
  EXPECT_TRUE(Await([&] { return Asked("good") >= 3; }));
  MutexLock lock(mutex_);
  EXPECT_EQ(asked_.size() - std::count(asked_.begin(), asked_.end(), "good"), kParallel / 2);
}

TEST_F(ProgressPollerTest, APodOfAnotherUidIsAnotherChiefOfWhichNothingIsKnown) {
  Answer("first", 7);
  Start();
  poller_.Watch("default/mnist", Chief("first"));
  ASSERT_TRUE(Await([&] { return poller_.Report("default/mnist").latest.has_value(); }));
  {
    MutexLock lock(mutex_);
    hanging_.insert("second");
  }
  poller_.Watch("default/mnist", Chief("second"));
  EXPECT_FALSE(poller_.Report("default/mnist").latest.has_value());
  ASSERT_TRUE(Await([&] { return Asked("second") == 1; }));
  // The second chief's answer is not the third's, even if the third is watched already.
  poller_.Watch("default/mnist", Chief("third"));
  Answer("second", 9);
  Answer("third", 1);
  {
    MutexLock lock(mutex_);
    hanging_.clear();
  }
  ASSERT_TRUE(Await([&] { return Asked("third") >= 2; }));
  EXPECT_EQ(poller_.Report("default/mnist").latest->step, 1);
}

TEST_F(ProgressPollerTest, AChiefThatDoesNotAnswerIsAskedAgainAndSaysWhy) {
  {
    MutexLock lock(mutex_);
    dead_.insert("a");
  }
  Start();
  poller_.Watch("default/mnist", Chief("a"));
  ASSERT_TRUE(Await([&] { return Asked("a") == 3; }));
  EXPECT_TRUE(Await([&] { return poller_.Report("default/mnist").problem == "connection refused"; }));
  Answer("a", 3);
  {
    MutexLock lock(mutex_);
    dead_.clear();
  }
  EXPECT_TRUE(Await([&] { return poller_.Report("default/mnist").problem.empty() && poller_.Report("default/mnist").latest; }));
}

// Where one thread asks, its next question is the deadline that it waits for.
class ProgressPollerWaitsTest : public ProgressPollerTest {
 protected:
  // So many seconds after the start, for each of them in turn, the chief is asked and answers.
  void ExpectQuestionsAt(std::initializer_list<int> seconds) {
    for (const int second : seconds) {
      const absl::Duration due = start_ + absl::Seconds(second);
      ASSERT_TRUE(Eventually([&] { return clock_.NextDeadline() == due; }))
          << "waits until " << clock_.NextDeadline() - start_ << ", not " << second;
      Answer("a", second);
      clock_.Advance(due - clock_.Monotonic());
      ASSERT_TRUE(Eventually([&] {
        const PollReport<Progress> report = one_.Report("default/mnist");
        return report.latest && report.latest->step == second;
      })) << second;
    }
  }
  // The same of a chief that gives no answer.
  void ExpectVainQuestionsAt(std::initializer_list<int> seconds) {
    for (const int second : seconds) {
      const absl::Duration due = start_ + absl::Seconds(second);
      ASSERT_TRUE(Eventually([&] { return clock_.NextDeadline() == due; }))
          << "waits until " << clock_.NextDeadline() - start_ << ", not " << second;
      const int before = Asked("a");
      clock_.Advance(due - clock_.Monotonic());
      ASSERT_TRUE(Eventually([&] { return Asked("a") > before; })) << second;
    }
  }
  // In real time.
  static bool Eventually(const std::function<bool()>& condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  const absl::Duration start_ = clock_.Monotonic();
  ProgressPoller one_{clock_, Fetch(), {.interval = absl::Seconds(10), .parallel = 1}, [](const std::string&) {}};
};

TEST_F(ProgressPollerWaitsTest, ANewChiefIsAskedAfterOneTwoFourAndEightSecondsThenInEachIntervalAndHurryStartsThisOver) {
  one_.Start();
  one_.Watch("default/mnist", Chief("a"));
  ExpectQuestionsAt({1, 2, 4, 8, 16, 26, 36});
  one_.Watch("default/mnist", Chief("a"));
  ExpectQuestionsAt({46});
  one_.Hurry("default/mnist");
  ExpectQuestionsAt({47, 48, 50, 54, 62, 72});
}

// A script may import its framework and load its data for minutes before it has a step to tell.
TEST_F(ProgressPollerWaitsTest, AChiefThatRefusesAnAnswerAtOnceIsAskedInEachIntervalHoweverLongItDoes) {
  {
    MutexLock lock(mutex_);
    dead_.insert("a");
  }
  one_.Start();
  one_.Watch("default/mnist", Chief("a"));
  ExpectVainQuestionsAt({1, 2, 4, 8, 16, 26, 36, 46, 56});
  {
    MutexLock lock(mutex_);
    dead_.clear();
  }
  ExpectQuestionsAt({66, 76});
}

TEST_F(ProgressPollerWaitsTest, AChiefThatHoldsAQuestionUpIsAskedEachTimeAfterTwiceTheWait) {
  {
    MutexLock lock(mutex_);
    silent_.insert("a");
  }
  one_.Start();
  one_.Watch("default/mnist", Chief("a"));
  ExpectVainQuestionsAt({1, 2, 4, 8, 16, 36, 76, 156, 316, 616, 916});
  {
    MutexLock lock(mutex_);
    silent_.clear();
  }
  ExpectQuestionsAt({1216, 1226});
}

TEST_F(ProgressPollerTest, WhatServesIsAskedForItsVersion) {
  {
    MutexLock lock(mutex_);
    answers_["good"] = R"({"model_version_status": [{"version": "568", "state": "AVAILABLE"}]})";
    answers_["bad"] = R"({"step": 3})";
  }
  VersionPoller versions(clock_, Fetch(), {.parallel = kParallel}, [](const std::string&) {});
  versions.Start();
  versions.Watch("default/a", Chief("good"));
  versions.Watch("default/b", Chief("bad"));
  EXPECT_TRUE(Await([&] { return versions.Report("default/a").latest == ServedVersion{568}; }));
  EXPECT_TRUE(Await([&] { return !versions.Report("default/b").problem.empty(); }));
  EXPECT_FALSE(versions.Report("default/b").latest);
}

TEST_F(ProgressPollerTest, StopEndsQuestionsUnderWay) {
  {
    MutexLock lock(mutex_);
    hanging_.insert("a");
  }
  Start();
  poller_.Watch("default/mnist", Chief("a"));
  ASSERT_TRUE(Await([&] { return Asked("a") == 1; }));
  poller_.Stop();
}

}  // namespace
}  // namespace trainyard::control
