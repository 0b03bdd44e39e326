#include "trainer/checkpoint/find_checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

class FindCheckpointTest : public ::testing::Test {
 protected:
  FindCheckpointTest() { fs::remove_all(root_); }
  ~FindCheckpointTest() override { fs::remove_all(root_); }

  // A run's folder, whose job has `checkpoint` in its object of that name.
  std::string RunWith(const std::string& checkpoint) const {
    fs::create_directories(root_ + "/run/config");
    fs::create_directories(root_ + "/run/checkpoints");
    std::ofstream(root_ + "/run/config/training.json")
        << R"({"model": {"preset": "linear"}, "data": {"format": "synthetic", "train": {"examples": 8}}, "steps": 1, "checkpoint": {)"
        << checkpoint << "}}";
    return root_ + "/run";
  }

  const std::string root_ = ::testing::TempDir() + "find_checkpoint_test";
};

TEST_F(FindCheckpointTest, ARunsCheckpointsAreWhereItsJobSays) {
  fs::create_directories(root_ + "/elsewhere");
  EXPECT_EQ(FindCheckpoints(RunWith("\"dir\": \"" + root_ + "/elsewhere\"")).dir, root_ + "/elsewhere");
  fs::create_directories(root_ + "/run/kept");
  EXPECT_EQ(FindCheckpoints(RunWith(R"("dir": "kept")")).dir, root_ + "/run/kept");
}

TEST_F(FindCheckpointTest, WithoutAWordOfTheJobTheyAreInCheckpoints) {
  EXPECT_EQ(FindCheckpoints(RunWith("")).dir, root_ + "/run/checkpoints");
  EXPECT_EQ(FindCheckpoints(RunWith(R"("dir": "gone")")).dir, root_ + "/run/checkpoints") << "the folder was copied without them";
  fs::remove_all(root_ + "/run/config");
  EXPECT_EQ(FindCheckpoints(root_ + "/run").dir, root_ + "/run/checkpoints");
}

TEST_F(FindCheckpointTest, AFolderOfRunsNamesItsLast) {
  EXPECT_EQ(LastRunIn(root_), "") << "there is no such folder";
  for (const char* folder : {"/20260101-120000/checkpoints", "/20260102-120000/checkpoints", "/20260103-120000/logs", "/x"})
    fs::create_directories(root_ + folder);
  std::ofstream(root_ + "/y") << "a file";
  EXPECT_EQ(LastRunIn(root_), root_ + "/20260102-120000");
  EXPECT_EQ(LastRunIn(root_ + "/20260102-120000"), "") << "a run";
  fs::create_directories(root_ + "/20260102-120000/checkpoints/step-7");
  std::ofstream(root_ + "/20260102-120000/checkpoints/step-7/manifest.json") << "{}";
  EXPECT_EQ(LastRunIn(root_ + "/20260102-120000/checkpoints"), "") << "its checkpoints";
  EXPECT_EQ(FindCheckpoint(root_).status().message(),
            "no checkpoint in " + root_ + ", which is a folder of runs; name one, such as " + root_ + "/20260102-120000");
  EXPECT_NE(FindCheckpoint(root_ + "/x").status().message().find("expected a run's output folder"), std::string_view::npos);
}

TEST_F(FindCheckpointTest, AFolderThatIsNotThereAndAFileAreNamed) {
  fs::create_directories(root_);
  const std::string expected = ", expected a run's output folder, its folder of checkpoints, or one of them";
  EXPECT_EQ(FindCheckpoint(root_ + "/nowhere").status().message(), "found no folder " + root_ + "/nowhere" + expected);
  std::ofstream(root_ + "/y") << "a file";
  EXPECT_EQ(FindCheckpoint(root_ + "/y").status().message(), "found the file " + root_ + "/y" + expected);
}

TEST_F(FindCheckpointTest, AFolderOfCheckpointsAndOneCheckpointMeanThemselves) {
  const std::string one = RunWith("") + "/checkpoints/step-3";
  fs::create_directories(one);
  EXPECT_EQ(FindCheckpoints(root_ + "/run/checkpoints").dir, root_ + "/run/checkpoints");
  EXPECT_FALSE(FindCheckpoints(one).one);
  std::ofstream(one + "/manifest.json") << "{}";
  EXPECT_TRUE(FindCheckpoints(one).one);
}

}  // namespace
}  // namespace trainyard::engine
