#include "trainer/backend/cuda/driver/gpu.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "trainer/backend/cuda/driver/cublas_lt.h"
#include "trainer/backend/cuda/driver/cuda_error.h"
#include "trainer/backend/cuda/driver/cudnn.h"
#include "trainer/backend/cuda/driver/launch.h"
#include "trainer/backend/cuda/driver/pinned_staging.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

constexpr size_t kStagingHalf = size_t{16} << 20;

class GpuMemory final : public DeviceMemory {
 public:
  GpuMemory(int gpu, void* data) : gpu_(gpu), data_(static_cast<std::byte*>(data)) {}
  ~GpuMemory() override {
    cudaSetDevice(gpu_);
    cudaFree(data_);  // waits for the work that uses it
  }
  std::byte* data() override { return data_; }

 private:
  const int gpu_;
  std::byte* const data_;
};

class Gpu final : public Device {
 public:
  explicit Gpu(int index) : index_(index) {}
  ~Gpu() override {
    cudaSetDevice(index_);
    staging_.reset();
    cudnn_.reset();
    lt_.reset();
    workspace_.reset();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Open() {
    cudaDeviceProp properties{};
    TY_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties"));
    description_ = properties.name;
    TY_RETURN_IF_ERROR(Enter());
    TY_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
    TY_ASSIGN_OR_RETURN(staging_, PinnedStaging::Create(kStagingHalf, stream_));
    TY_ASSIGN_OR_RETURN(workspace_, Allocate("the workspace of products", CublasLt::kWorkspaceBytes));
    TY_ASSIGN_OR_RETURN(lt_, CublasLt::Create(workspace_->data(), stream_));
    absl::StatusOr<std::unique_ptr<Cudnn>> cudnn = Cudnn::Create(stream_);
    if (cudnn.ok()) {
      cudnn_ = *std::move(cudnn);
    } else {
      LogWarning("{}: convolutions run as products, which is slower: {}", description_, cudnn.status().ToString());
    }
    return absl::OkStatus();
  }

  std::string_view description() const override { return description_; }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) override {
    TY_RETURN_IF_ERROR(Enter());
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaSuccess) return std::make_unique<GpuMemory>(index_, data);
    cudaGetLastError();  // a refused allocation is no reason to refuse what comes later
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    return WithContext(CudaStatus(error, "cudaMalloc"),
                       fmt::format("{} wants {} MB of {}'s memory, {} of {} MB are free; use a smaller batch", what, bytes >> 20,
                                   description_, free >> 20, total >> 20));
  }

  absl::Status Launch(const Work& work) override {
    TY_RETURN_IF_ERROR(Enter());
    return CudaStatus(LaunchKernel(work, stream_), "start of a kernel");
  }

  absl::StatusOr<std::unique_ptr<ProductPlan>> Plan(const ProductShape& shape) override {
    TY_RETURN_IF_ERROR(Enter());
    return lt_->Plan(shape);
  }

  absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Plan(const ConvolutionShape& shape) override {
    if (cudnn_ == nullptr) return nullptr;
    TY_RETURN_IF_ERROR(Enter());
    return cudnn_->Plan(shape);
  }

  absl::Status Upload(const void* host, size_t bytes, void* device) override {
    TY_RETURN_IF_ERROR(Enter());
    return staging_->Upload(host, bytes, device);
  }

  absl::Status Download(const void* device, size_t bytes, void* host) override {
    TY_RETURN_IF_ERROR(Enter());
    return staging_->Download(device, bytes, host);
  }

 private:
  // Each thread has a current device of its own.
  absl::Status Enter() const { return CudaStatus(cudaSetDevice(index_), "cudaSetDevice"); }

  const int index_;
  std::string description_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<PinnedStaging> staging_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::unique_ptr<CublasLt> lt_;
  std::unique_ptr<Cudnn> cudnn_;  // null: this machine has none
};

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> MakeGpu(int index) {
  auto gpu = std::make_unique<Gpu>(index);
  TY_RETURN_IF_ERROR(gpu->Open());
  return gpu;
}

}  // namespace trainyard::engine::cuda
