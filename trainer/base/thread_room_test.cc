#include "trainer/base/thread_room.h"

#include <gtest/gtest.h>

#include "absl/base/config.h"
#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

TEST(ThreadRoom, AFewThreadsCanBeHad) { EXPECT_TRUE(CheckThreadRoom(4).ok()); }

// Sanitizers themselves abort a process whose threads find no room.
#if !defined(ABSL_HAVE_ADDRESS_SANITIZER) && !defined(ABSL_HAVE_THREAD_SANITIZER)
// An address space without room for the stacks stands in for a limit of threads, which root does
// not have.
TEST(ThreadRoom, ThreadsThatCannotBeHadAreAnError) {
  EXPECT_TRUE(HoldsWithMoreMemory(rlim_t{64} << 20, [] {
    const absl::Status status = CheckThreadRoom(100);
    return absl::IsResourceExhausted(status) && status.message().find("cannot start 100 threads: after ") == 0;
  }));
}
#endif

}  // namespace
}  // namespace trainyard::engine
