#include "trainer/launch/earlier_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

class EarlierRunTest : public ::testing::Test {
 protected:
  EarlierRunTest() : dir_(::testing::TempDir() + "earlier-run-" + ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/checkpoints/step-3");
  }
  ~EarlierRunTest() override { fs::remove_all(dir_); }

  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(dir_ + "/" + name).parent_path());
    std::ofstream(dir_ + "/" + name) << text;
  }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(dir_ + "/" + name).rdbuf();
    return text.str();
  }
  bool Exists(const std::string& name) const { return fs::exists(dir_ + "/" + name); }
  void WriteRun() const {
    Write("report.json", R"({"state": "Succeeded", "steps": 40})");
    Write("replicas/worker-7.json", "earlier part");
    Write("config/training.json", "earlier config");
    Write("config/key", "key");
  }

  const std::string dir_;
};

TEST_F(EarlierRunTest, ItsReportsAreOutOfTheWayAndItsCheckpointsStay) {
  WriteRun();
  ASSERT_TRUE(EarlierRun::SetAside(dir_).ok());
  EXPECT_FALSE(Exists("report.json"));
  EXPECT_FALSE(Exists("replicas/worker-7.json"));
  EXPECT_TRUE(Exists("config/key"));
  EXPECT_TRUE(Exists("checkpoints/step-3"));
}

TEST_F(EarlierRunTest, PutBackItIsAsItWas) {
  WriteRun();
  const EarlierRun earlier = EarlierRun::SetAside(dir_).value();
  Write("replicas/worker-0.json", "new part");
  Write("config/training.json", "new config");
  ASSERT_TRUE(earlier.PutBack().ok());
  EXPECT_EQ(Read("replicas/worker-7.json"), "earlier part");
  EXPECT_FALSE(Exists("replicas/worker-0.json"));
  EXPECT_EQ(Read("config/training.json"), "earlier config");
  EXPECT_TRUE(Exists("report.json"));
  EXPECT_FALSE(Exists(".earlier"));
}

TEST_F(EarlierRunTest, ForgottenItIsGone) {
  WriteRun();
  const EarlierRun earlier = EarlierRun::SetAside(dir_).value();
  Write("report.json", "{}");
  earlier.Forget();
  EXPECT_EQ(Read("report.json"), "{}");
  EXPECT_FALSE(Exists(".earlier"));
}

TEST_F(EarlierRunTest, ItTellsMoreThanALaunchThatTrainedNothing) {
  WriteRun();
  const EarlierRun earlier = EarlierRun::SetAside(dir_).value();
  EXPECT_TRUE(earlier.TellsMore("Succeeded", 40));
  EXPECT_TRUE(earlier.TellsMore("Failed", 0));
  EXPECT_FALSE(earlier.TellsMore("Succeeded", 60)) << "a launch that was killed trained on";
}

TEST_F(EarlierRunTest, AReportThatIsNoneOrOfAnUnfinishedRunGivesWayToOneOfSuccess) {
  EXPECT_FALSE(EarlierRun::SetAside(dir_)->TellsMore("Failed", 0));
  Write("report.json", "not json");
  EXPECT_FALSE(EarlierRun::SetAside(dir_)->TellsMore("Failed", 0));
  Write("report.json", R"({"state": "Stopped", "steps": 40})");
  const EarlierRun stopped = EarlierRun::SetAside(dir_).value();
  EXPECT_FALSE(stopped.TellsMore("Succeeded", 40));
  EXPECT_TRUE(stopped.TellsMore("Stopped", 40));
}

TEST_F(EarlierRunTest, AKilledLaunchLosesNothingOfTheOneBeforeIt) {
  WriteRun();
  ASSERT_TRUE(EarlierRun::SetAside(dir_).ok());
  Write("replicas/worker-0.json", "of the killed one");
  const EarlierRun earlier = EarlierRun::SetAside(dir_).value();
  EXPECT_FALSE(Exists("replicas/worker-0.json"));
  EXPECT_TRUE(earlier.TellsMore("Succeeded", 40));
  ASSERT_TRUE(earlier.PutBack().ok());
  EXPECT_EQ(Read("replicas/worker-7.json"), "earlier part");
}

TEST_F(EarlierRunTest, ProfilesStayUntilThereAreNewOnes) {
  Write("profiles/worker-0.json", "earlier");
  Write("profiles/worker-1.json", "earlier");
  const EarlierProfiles earlier(dir_);
  earlier.RemoveIfReplaced();
  EXPECT_TRUE(Exists("profiles/worker-0.json") && Exists("profiles/worker-1.json"));
  Write("profiles/worker-0.json", "new");
  fs::last_write_time(dir_ + "/profiles/worker-0.json", fs::file_time_type::clock::now() + std::chrono::seconds(2));
  earlier.RemoveIfReplaced();
  EXPECT_EQ(Read("profiles/worker-0.json"), "new");
  EXPECT_FALSE(Exists("profiles/worker-1.json"));
}

}  // namespace
}  // namespace trainyard::engine
