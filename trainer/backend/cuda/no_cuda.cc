// A build without CUDA.
#include "absl/status/status.h"
#include "trainer/backend/cuda/cuda_backend.h"

namespace trainyard::engine {
namespace {

absl::Status NoCuda() {
  return absl::UnimplementedError("this build has no CUDA: docs/gpus.md says how to build the program, or its image, with CUDA");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions&) { return NoCuda(); }

absl::StatusOr<int> CudaDeviceCount() { return NoCuda(); }

}  // namespace trainyard::engine
