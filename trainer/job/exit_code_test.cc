#include "trainer/job/exit_code.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(ExitCode, TellsWhetherARestartCuresWhatHappened) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("server 0 has been away for 30m")), 200);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("no space left on device")), 201);
  for (const absl::Status& mistake :
       {absl::InvalidArgumentError("wrong shape"), absl::NotFoundError("no such file"), absl::FailedPreconditionError("another model"),
        absl::UnavailableError("port in use"), absl::DataLossError("torn"), absl::InternalError("?")}) {
    EXPECT_EQ(ExitCodeOf(mistake), 1) << mistake;
  }
}

}  // namespace
}  // namespace trainyard::engine
