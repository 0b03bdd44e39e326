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

class PinnedMemory final : public DeviceMemory {
 public:
  explicit PinnedMemory(void* data) : data_(static_cast<std::byte*>(data)) {}
  ~PinnedMemory() override { cudaFreeHost(data_); }
  std::byte* data() override { return data_; }

 private:
  std::byte* const data_;
};

class GraphRecording final : public Recording {
 public:
  GraphRecording(int gpu, cudaGraphExec_t graph, cudaStream_t stream) : gpu_(gpu), graph_(graph), stream_(stream) {}
  ~GraphRecording() override { cudaGraphExecDestroy(graph_); }
  absl::Status Launch() override {
    TY_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(gpu_), "cudaSetDevice"));
    return CudaStatus(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
  }

 private:
  const int gpu_;
  const cudaGraphExec_t graph_;
  const cudaStream_t stream_;
};

class GpuMark final : public Mark {
 public:
  GpuMark(int gpu, cudaEvent_t event, cudaStream_t stream) : gpu_(gpu), event_(event), stream_(stream) {}
  ~GpuMark() override { cudaEventDestroy(event_); }
  absl::Status Set() override {
    TY_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(gpu_), "cudaSetDevice"));
    return CudaStatus(cudaEventRecord(event_, stream_), "cudaEventRecord");
  }
  cudaEvent_t event() const { return event_; }

 private:
  const int gpu_;
  const cudaEvent_t event_;
  const cudaStream_t stream_;
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
    for (cudaEvent_t event : {reached_, copied_}) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    for (cudaStream_t stream : {copies_, stream_}) {
      if (stream != nullptr) cudaStreamDestroy(stream);
    }
  }

  absl::Status Open() {
    cudaDeviceProp properties{};
    TY_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties"));
    description_ = properties.name;
    TY_RETURN_IF_ERROR(Enter());
    TY_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate"));
    TY_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "cudaStreamCreate"));
    for (cudaEvent_t* event : {&reached_, &copied_}) {
      TY_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate"));
    }
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

  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocatePinned(std::string_view what, size_t bytes) override {
    TY_RETURN_IF_ERROR(Enter());
    void* data = nullptr;
    TY_RETURN_IF_ERROR(WithContext(CudaStatus(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "cudaHostAlloc"),
                                   fmt::format("{} want {} MB of page-locked memory", what, bytes >> 20)));
    return std::make_unique<PinnedMemory>(data);
  }

  absl::Status StartDownload(const void* device, size_t bytes, void* pinned) override {
    TY_RETURN_IF_ERROR(Enter());
    TY_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(reached_, stream_), "cudaEventRecord"));
    TY_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(copies_, reached_), "cudaStreamWaitEvent"));
    copying_ = true;
    return CudaStatus(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, copies_), "cudaMemcpyAsync to the host");
  }

  absl::Status JoinDownloads() override {
    if (!std::exchange(copying_, false)) return absl::OkStatus();
    TY_RETURN_IF_ERROR(Enter());
    TY_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(copied_, copies_), "cudaEventRecord"));
    return CudaStatus(cudaStreamWaitEvent(stream_, copied_), "cudaStreamWaitEvent");
  }

  absl::Status Wait() override {
    TY_RETURN_IF_ERROR(Enter());
    return CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  absl::StatusOr<std::unique_ptr<Mark>> MakeMark() override {
    TY_RETURN_IF_ERROR(Enter());
    cudaEvent_t event = nullptr;
    TY_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    return std::make_unique<GpuMark>(index_, event, stream_);
  }

  absl::Status WaitFor(const Mark& mark) override {
    TY_RETURN_IF_ERROR(Enter());
    return CudaStatus(cudaStreamWaitEvent(stream_, static_cast<const GpuMark&>(mark).event()), "cudaStreamWaitEvent");
  }

  // Without access copies go by way of the host's memory.
  absl::Status Meet(const Device& peer) override {
    const int other = IndexOf(peer);
    if (other == index_) return absl::OkStatus();
    int reaches = 0;
    TY_RETURN_IF_ERROR(CudaStatus(cudaDeviceCanAccessPeer(&reaches, index_, other), "cudaDeviceCanAccessPeer"));
    if (reaches == 0) {
      LogWarning("GPU {} does not reach the memory of GPU {}: gradients go through the host's memory, which is slower", index_, other);
      return absl::OkStatus();
    }
    TY_RETURN_IF_ERROR(Enter());
    const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error != cudaErrorPeerAccessAlreadyEnabled) return CudaStatus(error, "cudaDeviceEnablePeerAccess");
    cudaGetLastError();  // another training of this process has met it
    return absl::OkStatus();
  }

  absl::Status CopyFrom(const Device& peer, const void* from, size_t bytes, void* to) override {
    TY_RETURN_IF_ERROR(Enter());
    const int other = IndexOf(peer);
    if (other == index_) {
      return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "cudaMemcpyAsync within the device");
    }
    return CudaStatus(cudaMemcpyPeerAsync(to, index_, from, other, bytes, stream_), "cudaMemcpyPeerAsync");
  }

  absl::Status BeginRecording() override {
    TY_RETURN_IF_ERROR(Enter());
    return CudaStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }

  absl::StatusOr<std::unique_ptr<Recording>> EndRecording() override {
    copying_ = false;
    cudaGraph_t graph = nullptr;
    TY_RETURN_IF_ERROR(CudaStatus(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture"));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphDestroy(graph);
    TY_RETURN_IF_ERROR(CudaStatus(error, "cudaGraphInstantiate"));
    return std::make_unique<GraphRecording>(index_, ready, stream_);
  }

 private:
  static int IndexOf(const Device& device) { return static_cast<const Gpu&>(device).index_; }

  // Each thread has a current device of its own.
  absl::Status Enter() const { return CudaStatus(cudaSetDevice(index_), "cudaSetDevice"); }

  const int index_;
  std::string description_;
  cudaStream_t stream_ = nullptr;  // all work but downloads that were started
  cudaStream_t copies_ = nullptr;  // those
  cudaEvent_t reached_ = nullptr;  // by stream_, where a copy may begin
  cudaEvent_t copied_ = nullptr;   // by copies_
  bool copying_ = false;           // copies_ has copies that were not joined
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
