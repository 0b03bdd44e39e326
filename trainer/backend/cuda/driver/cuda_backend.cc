#include "trainer/backend/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/driver/cuda_error.h"
#include "trainer/backend/cuda/driver/gpu.h"
#include "trainer/base/status_macros.h"
#include "trainer/devices/shared_library.h"

namespace trainyard::engine {
namespace {

// "13.0" of 13000.
std::string VersionText(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

absl::StatusOr<int> CudaDeviceCount() {
  if (const auto driver = SharedLibrary::Open("libcuda.so.1"); !driver.ok()) {
    return absl::UnavailableError(fmt::format("this machine, or this container, has no NVIDIA driver: {}; see docs/gpus.md, or use the cpu",
                                              std::string(driver.status().message())));
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    cudaDriverGetVersion(&driver);
    return absl::UnavailableError(
        fmt::format("the NVIDIA driver runs CUDA {} at most, this build needs {}: install a newer driver, or use the cpu",
                    VersionText(driver), VersionText(CUDART_VERSION)));
  }
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    return absl::UnavailableError("the NVIDIA driver finds no GPU, or CUDA_VISIBLE_DEVICES leaves none; see docs/gpus.md, or use the cpu");
  }
  if (error != cudaSuccess) return absl::UnavailableError(cuda::CudaStatus(error, "cudaGetDeviceCount").message());
  return count;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options) {
  TY_ASSIGN_OR_RETURN(const int count, CudaDeviceCount());
  if (options.device < 0 || options.device >= count) {
    return absl::NotFoundError(fmt::format("there is no GPU {}: this process sees {}, counted from 0", options.device, count));
  }
  TY_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Device> gpu, cuda::MakeGpu(options.device));
  return cuda::MakeDeviceBackend(std::move(gpu), {.precision = options.precision});
}

}  // namespace trainyard::engine
