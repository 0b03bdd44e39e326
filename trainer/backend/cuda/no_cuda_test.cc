#include <gmock/gmock.h>

#include "trainer/backend/cuda/cuda_backend.h"

namespace trainyard::engine {
namespace {

using testing::HasSubstr;

TEST(NoCuda, ABuildWithoutCudaSaysSoAndHowToGetIt) {
  EXPECT_EQ(MakeCudaBackend({}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(MakeCudaBackend({}).status().message(), HasSubstr("this build has no CUDA"));
  EXPECT_THAT(CudaDeviceCount().status().message(), HasSubstr("docs/gpus.md says how to build the program, or its image, with CUDA"));
}

}  // namespace
}  // namespace trainyard::engine
