#include "operator/base/file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace trainyard::control {
namespace {

TEST(ReadFile, GivesTheTextWithoutTrailingWhiteSpaceAndNamesWhatIsWrong) {
  const std::string path = testing::TempDir() + "/read-file-test";
  std::ofstream(path) << " a token \n\n";
  EXPECT_EQ(*ReadFile(path, 100), " a token");
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(path, 3).status()));
  std::ofstream(path, std::ios::trunc) << "\n";
  EXPECT_EQ(*ReadFile(path, 100), "");
  std::remove(path.c_str());
  const absl::Status missing = ReadFile(path, 100).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_NE(missing.ToString().find(path), std::string::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadFile(testing::TempDir(), 100).status()));
}

}  // namespace
}  // namespace trainyard::control
