#include "trainer/launch/progress_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

Progress Halfway() {
  Progress progress;
  progress.step = 50;
  progress.total_steps = 100;
  progress.epoch = 3;
  progress.loss = 0.13199;
  progress.examples_per_second = 14210.4;
  progress.unit.name = "images";
  progress.eta = absl::Seconds(63);
  return progress;
}

int Cells(const std::string& text) {
  int cells = 0;
  for (const char c : text) cells += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return cells;
}

TEST(ProgressText, ALineSaysStepEpochLossSpeedAndEta) {
  EXPECT_EQ(ProgressLine(Halfway()), "step 50/100 (50%), epoch 3, loss 0.1320, 14210 images/s, ETA 0:01:03");
}

TEST(ProgressText, ARunThatStopsWithinAnEpochTellsThatEpoch) {
  ReplicaReport chief;
  chief.steps = 53;
  chief.planned_steps = 100;
  chief.epochs = 4;  // 0 to 3
  chief.history = {{.epoch = 2, .step = 45}};
  EXPECT_EQ(ProgressLine(AtEnd(Halfway(), chief)), "step 53/100 (53%), epoch 3, loss 0.1320, 14210 images/s");
}

TEST(ProgressText, ALossThatIsNoNumberIsShownAsWhatItIs) {
  Progress progress = Halfway();
  progress.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(ProgressLine(progress), HasSubstr("loss NaN, "));
}

TEST(ProgressText, AnEvaluationIsALine) {
  EXPECT_EQ(EvaluationLine({.step = 140, .epoch = 1, .metrics = {{"accuracy", 0.9712}, {"loss", 0.09314}}}),
            "epoch 1, step 140, evaluation: accuracy 0.9712, loss 0.0931");
}

TEST(ProgressText, OfATextPerplexityAndWordsAreTold) {
  Progress progress = Halfway();
  progress.unit = {.name = "words", .per_example = 2};
  progress.perplexity = 1.1411;
  EXPECT_EQ(ProgressLine(progress), "step 50/100 (50%), epoch 3, loss 0.1320, perplexity 1.14, 28421 words/s, ETA 0:01:03");
}

TEST(ProgressText, TheBarIsHalfFullAndFitsTheTerminal) {
  const std::string bar = ProgressBar(Halfway(), 100);
  EXPECT_LE(Cells(bar), 100);
  EXPECT_THAT(bar, HasSubstr("━─"));
  EXPECT_THAT(bar, HasSubstr(" 50% "));
}

TEST(ProgressText, ANarrowTerminalGetsAsMuchTextAsFits) {
  EXPECT_EQ(ProgressBar(Halfway(), 26), " 50%  step 50/100  epoch 3");
  EXPECT_EQ(ProgressBar(Halfway(), 41), " 50% ━─ step 50/100  epoch 3  loss 0.1320");
  EXPECT_EQ(ProgressBar(Halfway(), 20), " 50% ━╸─ step 50/100");
  EXPECT_EQ(ProgressBar(Halfway(), 16), " 50%");
  EXPECT_EQ(ProgressBar(Halfway(), 0), "");
}

TEST(ProgressText, NothingKnownYetIsZeroPercent) { EXPECT_EQ(ProgressLine(Progress{}), "step 0/0 (0%), epoch 0"); }

TEST(ProgressText, DurationsAreRoundedToSeconds) {
  EXPECT_EQ(HoursMinutesSeconds(absl::Milliseconds(3725600)), "1:02:06");
  EXPECT_EQ(HoursMinutesSeconds(-absl::Seconds(1)), "0:00:00");
}

}  // namespace
}  // namespace trainyard::engine
