#include <gmock/gmock.h>

#include "trainer/backend/cuda/cuda_backend.h"

namespace trainyard::engine {
namespace {

using testing::HasSubstr;

TEST(NoCuda, ABuildWithoutCudaSaysSoAndHowToGetIt) {
  EXPECT_EQ(MakeCudaBackend({}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MakeCudaBackend({}).status().message(), HasSubstr("this build has no CUDA"));
  EXPECT_THAT(CudaDeviceCount().status().message(), HasSubstr("scripts/setup.sh --cuda"));
}

}  // namespace
}  // namespace trainyard::engine
