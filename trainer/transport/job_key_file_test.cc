#include "trainer/transport/job_key_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "trainer/base/fake_clock.h"
#include "trainer/base/file.h"
#include "trainer/transport/test_job_key.h"

namespace trainyard::engine {
namespace {

TEST(JobKeyFile, ANewKeyIsUsedWithinASecondAndAnUnreadableOneNever) {
  const std::string path = testing::TempDir() + "/job_key_file_test.key";
  ASSERT_TRUE(ReplaceFile(path, KeyOf('a').ToText()).ok());
  FakeClock clock;
  JobKeyFile file(KeyOf('a'), path, clock);
  const auto holds = [&](char digit) {
    clock.Advance(absl::Seconds(1));
    return std::ranges::equal(file.Now().bytes(), KeyOf(digit).bytes());
  };
  EXPECT_TRUE(holds('a'));
  ASSERT_TRUE(ReplaceFile(path, KeyOf('b').ToText()).ok());
  EXPECT_TRUE(holds('b'));
  ASSERT_TRUE(ReplaceFile(path, "torn").ok());
  EXPECT_TRUE(holds('b'));
  ASSERT_EQ(std::remove(path.c_str()), 0);
  EXPECT_TRUE(holds('b'));
}

}  // namespace
}  // namespace trainyard::engine
