#include "trainer/base/made_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class MadeFoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(dir_);
    fs::create_directories(dir_ + "/old");
  }
  void TearDown() override { fs::remove_all(dir_); }
  const std::string dir_ = ::testing::TempDir() + "made_folders_test";
};

TEST_F(MadeFoldersTest, ThoseThatStayEmptyGoAgain) {
  {
    const auto folders = MadeFolders::Make(dir_ + "/old/a/b/");
    ASSERT_TRUE(folders.ok()) << folders.status();
    EXPECT_TRUE(fs::is_directory(dir_ + "/old/a/b"));
  }
  EXPECT_FALSE(fs::exists(dir_ + "/old/a"));
  EXPECT_TRUE(fs::exists(dir_ + "/old")) << "it was there before";
}

TEST_F(MadeFoldersTest, ThoseThatHoldSomethingStay) {
  {
    const auto folders = MadeFolders::Make(dir_ + "/a/b/c");
    ASSERT_TRUE(ReplaceFile(dir_ + "/a/b/file", "x").ok());
  }
  EXPECT_TRUE(fs::exists(dir_ + "/a/b/file"));
  EXPECT_FALSE(fs::exists(dir_ + "/a/b/c"));
}

TEST_F(MadeFoldersTest, AnEmptyFolderThatWasThereStays) {
  {
    ASSERT_TRUE(MadeFolders::Make(dir_ + "/old").ok());
  }
  EXPECT_TRUE(fs::exists(dir_ + "/old"));
}

TEST_F(MadeFoldersTest, WhereAParentIsAFileThatIsNamedAndNothingStays) {
  ASSERT_TRUE(ReplaceFile(dir_ + "/old/file", "x").ok());
  const absl::Status status = MadeFolders::Make(dir_ + "/old/file/a").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir_ + "/old/file"));
  EXPECT_EQ(fs::file_size(dir_ + "/old/file"), 1U);
}

}  // namespace
}  // namespace trainyard::engine
