#include "trainer/launch/replica_process.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace trainyard::engine {
namespace {

ProcessOptions Shell(const std::string& script) {
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return {.argv = {"/bin/sh", "-c", script},
          .environment = {{"TRAINYARD_ROLE", "worker"}},
          .log_path = ::testing::TempDir() + "/replica-" + test + ".log"};
}

std::string LogOf(const ProcessOptions& options) {
  std::ifstream file(options.log_path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool EndsWithin(const ReplicaProcess& process, int milliseconds) {
  pollfd fd{.fd = process.pidfd(), .events = POLLIN, .revents = 0};
  return poll(&fd, 1, milliseconds) == 1;
}

TEST(ReplicaProcess, ReportsTheExitCodeAndAppendsOutputToTheLog) {
  const ProcessOptions options = Shell("echo role=$TRAINYARD_ROLE; exit 3");
  std::remove(options.log_path.c_str());
  auto process = ReplicaProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(EndsWithin(*process, 10000));
  EXPECT_EQ(process->Reap(), (ExitStatus{.code = 3, .signal = 0}));
  EXPECT_EQ(LogOf(options), "role=worker\n");
}

TEST(ReplicaProcess, ReportsTheSignalThatKilledIt) {
  auto process = ReplicaProcess::Start(Shell("sleep 60"));
  ASSERT_TRUE(process.ok()) << process.status();
  process->Signal(SIGKILL);
  ASSERT_TRUE(EndsWithin(*process, 10000));
  const ExitStatus status = process->Reap();
  EXPECT_EQ(status, (ExitStatus{.code = 137, .signal = 9}));
  EXPECT_EQ(Describe(status), "signal 9 (Killed)");
}

TEST(ReplicaProcess, AProcessOutOfScopeIsKilledAndReaped) {
  pid_t pid;
  {
    auto process = ReplicaProcess::Start(Shell("sleep 60"));
    ASSERT_TRUE(process.ok()) << process.status();
    pid = process->pid();
  }
  EXPECT_EQ(kill(pid, 0), -1);
}

TEST(ReplicaProcess, TheFolderOfTheLogIsMadeWhereItIsMissing) {
  ProcessOptions options = Shell("echo here");
  const std::string folder = ::testing::TempDir() + "/replica-logs-made-anew";
  std::filesystem::remove_all(folder);
  options.log_path = folder + "/logs/worker-0.log";
  auto process = ReplicaProcess::Start(options);
  ASSERT_TRUE(process.ok()) << process.status();
  process->Reap();
  EXPECT_EQ(LogOf(options), "here\n");
}

TEST(ReplicaProcess, AMissingProgramOrAFolderThatCannotBeIsNamed) {
  ProcessOptions options = Shell("true");
  options.argv[0] = "/no/such/program";
  EXPECT_NE(ReplicaProcess::Start(options).status().message().find("/no/such/program"), absl::string_view::npos);
  options = Shell("true");
  options.log_path = "/dev/null/logs/log";
  EXPECT_NE(ReplicaProcess::Start(options).status().message().find("/dev/null/logs"), absl::string_view::npos);
}

}  // namespace
}  // namespace trainyard::engine
