// A build without CUDA.
#include "absl/status/status.h"
#include "trainer/backend/cuda/cuda_backend.h"

namespace trainyard::engine {
namespace {

absl::Status NoCuda() {
  return absl::UnimplementedError("this build has no CUDA: run scripts/setup.sh --cuda and build again, see docs/gpus.md");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions&) { return NoCuda(); }

absl::StatusOr<int> CudaDeviceCount() { return NoCuda(); }

}  // namespace trainyard::engine
