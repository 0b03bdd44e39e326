#include "trainer/base/memory_for.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(MemoryFor, AFailedAllocationNamesWhatItWasFor) {
  const absl::Status status = WithMemoryFor("the arena of a batch of 7", 3'000'000'000, []() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot get 3.00 GB of memory for the arena of a batch of 7"));
}

TEST(MemoryFor, TheFailedAllocationIsToldWhereTheWholeIsNotKnown) {
  const auto fail = []() -> absl::Status { throw MemoryShortage(2'500'000'000); };
  EXPECT_THAT(std::string(WithMemoryFor("the data set", 0, fail).message()), HasSubstr("cannot get 2.50 GB of memory for the data set"));
  EXPECT_THAT(std::string(WithMemoryFor("the data set", 7'000'000'000, fail).message()), HasSubstr("cannot get 7.00 GB"));
}

TEST(MemoryFor, WhatTheLimitDoesNotLeaveIsNotTried) {
  EXPECT_TRUE(HoldsWithMoreMemory(rlim_t{2} << 30, [] {
    bool tried = false;
    const absl::Status status = WithMemoryFor("the parameters", int64_t{4} << 30, [&] {
      tried = true;
      return absl::OkStatus();
    });
    return !tried && absl::IsResourceExhausted(status) && status.message().find("its limit leaves") != std::string::npos;
  }));
}

}  // namespace
}  // namespace trainyard::engine
