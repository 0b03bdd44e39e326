#include "trainer/commands/make_backend.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(MakeBackend, PrecisionsOfGpusAreRefusedWhereNoGpuComputes) {
  EXPECT_EQ(
      MakeBackend("cpu", 1, Precision::kFloat16).status(),
      absl::InvalidArgumentError("precision: found float16, which only GPUs have, but this process computes on the processor; use float32, "
                                 "bfloat16 or auto, or a GPU"));
  EXPECT_EQ(
      MakeBackend("cpu", 1, Precision::kTf32).status(),
      absl::InvalidArgumentError("precision: found tf32, which only GPUs have, but this process computes on the processor; use float32, "
                                 "bfloat16 or auto, or a GPU"));
  EXPECT_EQ(MakeBackend("reference", 1, Precision::kTf32).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(MakeBackend("cpu", 1, Precision::kFloat32).ok());
}

}  // namespace
}  // namespace trainyard::engine
