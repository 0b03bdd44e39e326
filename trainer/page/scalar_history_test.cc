#include "trainer/page/scalar_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "trainer/base/fake_clock.h"
#include "trainer/report/summary_writer.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ScalarHistoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<SummaryWriter> Writer() {
    clock_.Advance(absl::Seconds(1));
    return *SummaryWriter::Create(dir_, clock_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  const std::string dir_ = ::testing::TempDir() + "/scalars-" + std::to_string(::getpid());
  FakeClock clock_;
};

TEST_F(ScalarHistoryTest, HasNoCurvesOfAFolderThatIsNotThere) {
  ScalarHistory history(dir_);
  history.Refresh();
  EXPECT_THAT(history.curves(), IsEmpty());
}

TEST_F(ScalarHistoryTest, GoesOnReadingWhereTheWriterGoesOnWriting) {
  const auto writer = Writer();
  ASSERT_TRUE(writer->Scalar(0, "loss", 2.5).ok());
  ASSERT_TRUE(writer->Flush().ok());
  ScalarHistory history(dir_);
  history.Refresh();
  ASSERT_TRUE(writer->Scalar(20, "loss", NAN).ok());
  ASSERT_TRUE(writer->Scalar(20, "eval/accuracy", 0.5).ok());
  ASSERT_TRUE(writer->Flush().ok());
  history.Refresh();
  history.Refresh();
  ASSERT_EQ(history.curves().size(), 2U);
  const std::vector<CurvePoint>& loss = history.curves().at("loss").points;
  ASSERT_EQ(loss.size(), 2U);
  EXPECT_EQ(loss[0], (CurvePoint{.step = 0, .value = 2.5}));
  EXPECT_TRUE(std::isnan(loss[1].value));
}

TEST_F(ScalarHistoryTest, ForgetsStepsThatCameAgainInAResumedRun) {
  {
    const auto first = Writer();
    for (const int64_t step : {0, 20, 40, 60}) ASSERT_TRUE(first->Scalar(step, "loss", 1).ok());
  }
  {
    const auto second = Writer();
    for (const int64_t step : {40, 80}) ASSERT_TRUE(second->Scalar(step, "loss", 2).ok());
  }
  ScalarHistory history(dir_);
  history.Refresh();
  EXPECT_THAT(history.curves().at("loss").points, ElementsAre(CurvePoint{0, 1}, CurvePoint{20, 1}, CurvePoint{40, 2}, CurvePoint{80, 2}));
}

TEST_F(ScalarHistoryTest, ReadsADamagedFileUpToTheDamageAndTheNextOneWhole) {
  std::string path;
  {
    const auto first = Writer();
    ASSERT_TRUE(first->Scalar(0, "loss", 1).ok());
    path = first->path();
  }
  std::ofstream(path, std::ios::app | std::ios::binary) << std::string(64, 'x');
  {
    const auto second = Writer();
    ASSERT_TRUE(second->Scalar(20, "loss", 2).ok());
  }
  ScalarHistory history(dir_);
  history.Refresh();
  history.Refresh();
  EXPECT_THAT(history.curves().at("loss").points, ElementsAre(CurvePoint{0, 1}, CurvePoint{20, 2}));
}

TEST_F(ScalarHistoryTest, WaitsForTheRestOfARecordThatIsHalfWritten) {
  std::string path;
  {
    const auto writer = Writer();
    ASSERT_TRUE(writer->Scalar(0, "loss", 1).ok());
    ASSERT_TRUE(writer->Scalar(20, "loss", 2).ok());
    path = writer->path();
  }
  const auto whole = std::filesystem::file_size(path);
  std::string bytes(whole, '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(whole));
  std::filesystem::resize_file(path, whole - 5);
  ScalarHistory history(dir_);
  history.Refresh();
  EXPECT_EQ(history.curves().at("loss").points.size(), 1U);
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes.substr(whole - 5);
  history.Refresh();
  EXPECT_EQ(history.curves().at("loss").points.size(), 2U);
}

TEST_F(ScalarHistoryTest, KeepsFewerPointsOfAVeryLongCurve) {
  {
    const auto writer = Writer();
    for (int64_t step = 0; step < static_cast<int64_t>(ScalarHistory::kMostPoints) + 1000; ++step)
      ASSERT_TRUE(writer->Scalar(step, "loss", 1).ok());
  }
  ScalarHistory history(dir_);
  history.Refresh();
  const ScalarHistory::Curve& loss = history.curves().at("loss");
  EXPECT_EQ(loss.every, 2);
  EXPECT_EQ(loss.points.size(), ScalarHistory::kMostPoints / 2 + 500);
}

}  // namespace
}  // namespace trainyard::engine
