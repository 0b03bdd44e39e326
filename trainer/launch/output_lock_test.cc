#include "trainer/launch/output_lock.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OutputLockTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(dir_); }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  const std::string dir_ = ::testing::TempDir() + "output_lock_test";
};

TEST_F(OutputLockTest, ASecondLaunchIsRefusedAndToldWhoHasTheFolder) {
  const auto first = OutputLock::Take(dir_ + "/new");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = OutputLock::Take(dir_ + "/new");
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(dir_ + "/new"), HasSubstr(fmt::format("(process {})", getpid())), HasSubstr("--output")));
}

TEST_F(OutputLockTest, TheFolderIsFreeAgainWhenTheLockIsGone) {
  {
    const auto first = OutputLock::Take(dir_);
    ASSERT_TRUE(first.ok()) << first.status();
  }
  EXPECT_TRUE(OutputLock::Take(dir_).ok());
}

TEST_F(OutputLockTest, ALaunchAndItsChiefHaveLocksOfTheirOwn) {
  const auto launch = OutputLock::Take(dir_);
  const auto chief = OutputLock::Take(dir_, LockHolder::kChief);
  ASSERT_TRUE(launch.ok() && chief.ok());
  EXPECT_THAT(std::string(OutputLock::Take(dir_, LockHolder::kChief).status().message()),
              HasSubstr(fmt::format("is in use by the chief of another training (process {})", getpid())));
}

TEST_F(OutputLockTest, AFileThatSomebodyLeftBehindLocksNothing) {
  std::filesystem::create_directories(dir_);
  std::ofstream(dir_ + "/.lock") << "1234567890";
  const auto lock = OutputLock::Take(dir_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_THAT(std::string(OutputLock::Take(dir_).status().message()), HasSubstr(fmt::format("(process {})", getpid())));
}

TEST_F(OutputLockTest, AFolderThatCannotBeMadeIsNamed) {
  const auto lock = OutputLock::Take("/proc/none");
  EXPECT_FALSE(lock.ok());
  EXPECT_THAT(std::string(lock.status().message()), HasSubstr("/proc/none"));
}

}  // namespace
}  // namespace trainyard::engine
