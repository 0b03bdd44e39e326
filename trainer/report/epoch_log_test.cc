#include "trainer/report/epoch_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

EpochRecord Epoch(int64_t step, double loss = 1) {
  return {.epoch = step / 10 - 1, .step = step, .loss = loss, .seconds = 1, .perplexity = std::nullopt, .eval = {}};
}

class EpochLogTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  std::vector<int64_t> StepsFrom(int64_t step) {
    std::vector<int64_t> steps;
    for (const EpochRecord& epoch : EpochLog(dir_).GoOnFrom(step)) steps.push_back(epoch.step);
    return steps;
  }

  const std::string dir_ = ::testing::TempDir() + "epoch_log_test";
};

TEST_F(EpochLogTest, TheEpochsBeforeTheStartComeBack) {
  EpochRecord first = Epoch(10, 2.5);
  first.eval = {{"accuracy", 0.5}};
  EpochRecord second = Epoch(20, std::numeric_limits<double>::quiet_NaN());
  second.perplexity = 7;
  EpochLog log(dir_);
  log.Append(first);
  log.Append(second);
  const std::vector<EpochRecord> read = EpochLog(dir_).GoOnFrom(25);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].loss, 2.5);
  EXPECT_EQ(read[0].eval.at("accuracy"), 0.5);
  EXPECT_TRUE(std::isnan(read[1].loss));
  EXPECT_EQ(read[1].perplexity, 7);
}

TEST_F(EpochLogTest, EpochsAfterTheStartAreForgottenForGood) {
  EpochLog log(dir_);
  for (const int64_t step : {10, 20, 30}) log.Append(Epoch(step));
  EXPECT_THAT(StepsFrom(20), ElementsAre(10, 20));
  EXPECT_THAT(StepsFrom(99), ElementsAre(10, 20));
  EXPECT_THAT(StepsFrom(0), IsEmpty()) << "a training that starts anew";
  EXPECT_THAT(StepsFrom(99), IsEmpty());
}

TEST_F(EpochLogTest, OfAnEpochThatIsDoneAgainTheLaterLineCounts) {
  EpochLog log(dir_);
  for (const int64_t step : {10, 20, 30}) log.Append(Epoch(step));
  log.Append(Epoch(20, 9));
  const std::vector<EpochRecord> read = EpochLog(dir_).GoOnFrom(99);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[1].loss, 9);
}

TEST_F(EpochLogTest, LinesThatAreNoneAreLeftOut) {
  EXPECT_THAT(StepsFrom(99), IsEmpty());
  EpochLog(dir_).Append(Epoch(10));
  std::ofstream(dir_ + "/epochs.jsonl", std::ios::app) << "{}\n[1]\nnull\n\n{\"epoch\": 1}\n{\"epoch\": 1, \"st";
  EXPECT_THAT(StepsFrom(99), ElementsAre(10));
}

TEST_F(EpochLogTest, ALineOfTooManyLevelsIsLeftOut) {
  const std::string deep = std::string(64, '[') + std::string(64, ']');
  std::ofstream(dir_ + "/epochs.jsonl") << R"({"epoch": 1, "step": 10, "loss": 1, "seconds": 1, "eval": {}})" << "\n"
                                        << R"({"epoch": 2, "step": 20, "loss": 1, "seconds": 1, "eval": {}, "more": )" << deep << "}\n";
  EXPECT_THAT(StepsFrom(99), ElementsAre(10));
}

TEST_F(EpochLogTest, AFolderThatIsGoneEndsNothing) { EpochLog(dir_ + "/none").Append(Epoch(10)); }

}  // namespace
}  // namespace trainyard::engine
