#include "trainer/base/last_resort.h"

#include <gtest/gtest.h>

#include <csignal>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace trainyard::engine {
namespace {

constexpr int kExitCode = 201;

template <typename Exception>
void ThrowInAThread(Exception exception) {
  InstallLastResort(kExitCode);
  std::thread([&] { throw exception; }).join();
}

TEST(LastResortDeathTest, MemoryThatRanOutIsOneLineAndAnExitCode) {
  EXPECT_EXIT(ThrowInAThread(std::bad_alloc()), testing::ExitedWithCode(kExitCode), "^E memory ran out: .*\n$");
}

TEST(LastResortDeathTest, AThreadThatCannotBeHadIsOneLineAndAnExitCode) {
  EXPECT_EXIT(ThrowInAThread(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
              testing::ExitedWithCode(kExitCode), "^E no more threads can be started: ");
}

TEST(LastResortDeathTest, OtherExceptionsEndTheProcessAsBefore) {
  EXPECT_EXIT(ThrowInAThread(std::runtime_error("a mistake of ours")), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace trainyard::engine
