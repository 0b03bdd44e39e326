#include "trainer/train/evaluation_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "trainer/base/fake_clock.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(EvaluationWatch, TellsHowFarALongEvaluationIs) {
  FakeClock clock;
  std::vector<std::string> told;
  {
    EvaluationWatch watch({.who = "worker-0", .examples = 200, .stop = {}, .told = [&](const std::string& text) { told.push_back(text); }},
                          clock);
    const auto done = [&](absl::Duration time) {
      clock.Advance(time);
      EXPECT_TRUE(watch.Done(50).ok());
    };
    done(absl::Seconds(4));
    EXPECT_THAT(told, IsEmpty());
    done(absl::Seconds(1));
    done(absl::Seconds(1));
    EXPECT_THAT(told, ElementsAre("worker-0 evaluates: 50% of 200 examples"));
  }
  EXPECT_THAT(told, ElementsAre("worker-0 evaluates: 50% of 200 examples", ""));
}

TEST(EvaluationWatch, AShortOneIsNotTold) {
  FakeClock clock;
  std::vector<std::string> told;
  {
    EvaluationWatch watch({.who = "worker-0", .examples = 2, .stop = {}, .told = [&](const std::string& text) { told.push_back(text); }},
                          clock);
    EXPECT_TRUE(watch.Done(2).ok());
  }
  EXPECT_THAT(told, IsEmpty());
}

TEST(EvaluationWatch, EndsWhenItsProcessIsToStopButForTheLastBatch) {
  FakeClock clock;
  bool stop = false;
  EvaluationWatch watch({.who = "worker-0", .examples = 3, .stop = [&] { return stop; }, .told = {}}, clock);
  EXPECT_TRUE(watch.Done(1).ok());
  stop = true;
  const absl::Status stopped = watch.Done(1);
  EXPECT_TRUE(absl::IsCancelled(stopped));
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("worker-0: stopped while it evaluates, after 2 of 3 examples"));
  EXPECT_TRUE(watch.Done(1).ok()) << "the result is there";
}

}  // namespace
}  // namespace trainyard::engine
