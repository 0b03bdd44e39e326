#include "trainer/base/early_stop.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace trainyard::engine {
namespace {

// How a process ends that does `work` and then gets SIGTERM.
int StatusOf(void (*work)()) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    raise(SIGTERM);
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(EndOnSigterm, EndsTheProcessWithItsExitCode) {
  const int status = StatusOf([] { EndOnSigterm(143); });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 143);
}

TEST(EndOnSigterm, IsTakenBack) {
  const int status = StatusOf([] {
    EndOnSigterm(143);
    EndOnSigtermNoMore();
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

}  // namespace
}  // namespace trainyard::engine
