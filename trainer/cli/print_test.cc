#include "trainer/cli/print.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace trainyard::engine {
namespace {

TEST(Print, AFullDiskMarksStandardOutputAndThrowsNothing) {
  std::fflush(stdout);
  const int before = dup(STDOUT_FILENO);
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  dup2(full, STDOUT_FILENO);
  EXPECT_NO_THROW(Print(std::string(1 << 20, 'x')));  // more than a buffer
  EXPECT_NE(std::ferror(stdout), 0);
  dup2(before, STDOUT_FILENO);
  std::clearerr(stdout);
  close(full);
  close(before);
}

}  // namespace
}  // namespace trainyard::engine
