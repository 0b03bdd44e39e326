#include "trainer/base/straggler_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Changes = std::vector<StragglerWatch::Change>;

std::vector<WorkerPace> Paces(const std::vector<int>& milliseconds) {
  std::vector<WorkerPace> paces;
  for (const int time : milliseconds) {
    const auto worker = static_cast<int>(paces.size());
    paces.push_back({.worker = worker, .step = absl::Milliseconds(time), .node = "node-" + std::to_string(worker)});
  }
  return paces;
}

std::vector<int> Named(const StragglerWatch& watch) {
  std::vector<int> workers;
  for (const auto& [worker, straggler] : watch.stragglers()) workers.push_back(worker);
  return workers;
}

TEST(MedianPace, IsTheLowerOneOfTwoInTheMiddle) {
  EXPECT_EQ(MedianPace({}), absl::ZeroDuration());
  EXPECT_EQ(MedianPace(Paces({7})), absl::Milliseconds(7));
  EXPECT_EQ(MedianPace(Paces({9, 4})), absl::Milliseconds(4));
  EXPECT_EQ(MedianPace(Paces({5, 90, 6})), absl::Milliseconds(6));
  EXPECT_EQ(MedianPace(Paces({8, 1, 3, 4})), absl::Milliseconds(3));
}

TEST(StragglerWatch, NamesAWorkerThatIsSlowBesideTheMedianOnceUntilItIsNot) {
  StragglerWatch watch;
  EXPECT_THAT(watch.Judge(Paces({20, 21, 29, 19})), IsEmpty());
  const std::vector<WorkerPace> slow = Paces({20, 21, 31, 19});
  EXPECT_EQ(watch.Judge(slow), (Changes{{.straggler = {.pace = slow[2], .median = absl::Milliseconds(20)}, .begins = true}}));
  EXPECT_THAT(watch.Judge(slow), IsEmpty());
  EXPECT_THAT(watch.Judge(Paces({20, 21, 26, 19})), IsEmpty()) << "above 1.25 times the median it is slow still";
  EXPECT_THAT(Named(watch), ElementsAre(2));
  const std::vector<WorkerPace> well = Paces({20, 21, 24, 19});
  EXPECT_EQ(watch.Judge(well), (Changes{{.straggler = {.pace = well[2], .median = absl::Milliseconds(20)}, .begins = false}}));
  EXPECT_THAT(Named(watch), IsEmpty());
}

TEST(StragglerWatch, OfTwoWorkersTheSlowerOneIsNamed) {
  StragglerWatch watch;
  watch.Judge(Paces({20, 31}));
  EXPECT_THAT(Named(watch), ElementsAre(1));
}

TEST(StragglerWatch, HalfOfTheWorkersMayBeSlow) {
  StragglerWatch watch;
  watch.Judge(Paces({40, 20, 41, 20}));
  EXPECT_THAT(Named(watch), ElementsAre(0, 2));
}

TEST(StragglerWatch, AWorkerAloneOrLostIsNoStraggler) {
  StragglerWatch watch;
  EXPECT_THAT(watch.Judge(Paces({20})), IsEmpty());
  const std::vector<WorkerPace> slow = Paces({20, 21, 60});
  watch.Judge(slow);
  EXPECT_EQ(watch.Judge(Paces({20, 21})), (Changes{{.straggler = {.pace = slow[2], .median = absl::Milliseconds(21)}, .begins = false}}));
  EXPECT_THAT(watch.Judge({}), IsEmpty());
}

TEST(PaceWindow, IsTheMeanOfTheNewestStepsWithoutTheFirst) {
  PaceWindow window;
  const auto at = [](double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); };
  window.Add(at(1), absl::Seconds(100));
  window.Add(at(2), absl::Seconds(1));
  window.Add(at(3), absl::Seconds(1));
  EXPECT_EQ(window.Mean(), std::nullopt);
  window.Add(at(4), absl::Seconds(4));
  EXPECT_EQ(window.Mean(), absl::Seconds(2));
  for (int i = 0; i < 20; ++i) window.Add(at(5 + i), absl::Seconds(3));
  EXPECT_EQ(window.Mean(), absl::Seconds(3)) << "older than the window";
  for (int i = 1; i <= 3; ++i) window.Add(at(1000.0 * i), absl::Seconds(6));
  EXPECT_EQ(window.Mean(), absl::Seconds(6)) << "slow steps count however long ago";
}

}  // namespace
}  // namespace trainyard::engine
