#include "trainer/report/termination_message.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

TEST(TerminationMessage, ReplacesWhatWasSaidBeforeAndIsCutAtACharacter) {
  const std::string path = ::testing::TempDir() + "termination-message";
  ASSERT_TRUE(ReplaceFile(path, "before").ok());
  ASSERT_TRUE(LeaveTerminationMessage(path, "spec.model: found no layers").ok());
  EXPECT_EQ(*ReadFile(path), "spec.model: found no layers");
  std::string hyphens;
  for (int i = 0; i < 1000; ++i) hyphens += "–";
  ASSERT_TRUE(LeaveTerminationMessage(path, hyphens).ok());
  EXPECT_EQ(*ReadFile(path), hyphens.substr(0, 2046));
}

TEST(TerminationMessage, WithoutAFileNothingIsMade) {
  const std::string path = ::testing::TempDir() + "no-termination-message";
  std::filesystem::remove(path);
  EXPECT_TRUE(LeaveTerminationMessage(path, "x").ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace trainyard::engine
