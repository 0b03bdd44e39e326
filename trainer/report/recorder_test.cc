#include "trainer/report/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/fake_clock.h"

namespace trainyard::engine {
namespace {

using ::testing::SizeIs;

TEST(RecorderTest, ARunThatIsRolledBackAfterItsLastStepTellsTheEpochOnce) {
  const std::string dir = ::testing::TempDir() + "recorder_test";
  std::filesystem::remove_all(dir);
  FakeClock clock;
  const auto recorder = Recorder::Create({.output = dir, .summary_every = 0, .total_steps = 2, .termination_log = ""}, clock);
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const ParameterSet parameters;
  (*recorder)->OnStart(0);
  for (int64_t step = 0; step < 2; ++step) {
    const absl::Time now = clock.Now();
    ASSERT_TRUE((*recorder)
                    ->OnStep({.step = step,
                              .global_step = step + 1,
                              .examples = 4,
                              .loss = 0.5,
                              .start = now,
                              .input_done = now,
                              .compute_done = now,
                              .end = now})
                    .ok());
  }
  ASSERT_TRUE((*recorder)->OnEpoch(0, 2, {}, parameters).ok());
  (*recorder)->OnRollback(2, 2);
  ASSERT_TRUE((*recorder)->OnEpoch(0, 2, {{"accuracy", 0.9}}, parameters).ok());
  ASSERT_TRUE((*recorder)->Finish({}, 0, 0).ok());
  const auto reports = ReadReplicaReports(dir);
  ASSERT_TRUE(reports.ok()) << reports.status();
  ASSERT_THAT(*reports, SizeIs(1));
  ASSERT_THAT(reports->front().history, SizeIs(1));
  EXPECT_EQ(reports->front().history[0].loss, 0.5);
  EXPECT_EQ(reports->front().history[0].eval.at("accuracy"), 0.9);
}

}  // namespace
}  // namespace trainyard::engine
