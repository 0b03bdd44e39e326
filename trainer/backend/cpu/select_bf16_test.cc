#include "trainer/backend/cpu/select_bf16.h"

#include <gtest/gtest.h>

#include "trainer/backend/cpu/cpu_backend.h"

namespace trainyard::engine {
namespace {

TEST(SelectBf16Set, TakesTheFastestByDefaultAndRefusesWhatTheMachineLacks) {
  EXPECT_STREQ(SelectBf16Set()->isa, RunnableBf16Sets().front().isa);
  for (const Bf16Set& set : RunnableBf16Sets()) EXPECT_EQ(SelectBf16Set(set.isa)->kernels.product, set.kernels.product);
  const absl::Status status = SelectBf16Set("mmx").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'mmx'"), std::string::npos) << status;
}

TEST(SelectBf16Set, Float32RefusesKernelsThatOnlyRound) {
  EXPECT_EQ(MakeCpuBackend({.threads = 1, .isa = "amx"}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace trainyard::engine
