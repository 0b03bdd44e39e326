#include "trainer/launch/new_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <thread>
#include <vector>

namespace trainyard::engine {
namespace {

class NewFolderTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  const std::string root_ = ::testing::TempDir() + "new_folder_test";
};

TEST_F(NewFolderTest, ATakenNameGetsANumber) {
  const std::string path = root_ + "/runs/a";
  EXPECT_EQ(MakeNewFolder(path).value(), path);
  EXPECT_EQ(MakeNewFolder(path).value(), path + "-2");
  EXPECT_EQ(MakeNewFolder(path).value(), path + "-3");
  EXPECT_TRUE(std::filesystem::is_directory(path + "-3"));
}

TEST_F(NewFolderTest, AllWhoAskAtOnceGetFoldersOfTheirOwn) {
  constexpr int kThreads = 8;
  std::vector<std::string> made(kThreads);
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (std::string& one : made) threads.emplace_back([&one, this] { one = MakeNewFolder(root_ + "/a").value(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(made.begin(), made.end()).size(), static_cast<size_t>(kThreads));
}

TEST_F(NewFolderTest, AFolderThatCannotBeMadeIsNamed) {
  EXPECT_THAT(std::string(MakeNewFolder("/proc/none/run").status().message()), ::testing::HasSubstr("/proc/none"));
  EXPECT_THAT(std::string(MakeNewFolder("/proc/none").status().message()), ::testing::HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace trainyard::engine
