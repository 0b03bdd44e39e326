#include "trainer/backend/cuda/driver/pinned_staging.h"

#include <algorithm>
#include <cstring>

#include "trainer/backend/cuda/driver/cuda_error.h"
#include "trainer/base/status_macros.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine::cuda {

absl::StatusOr<std::unique_ptr<PinnedStaging>> PinnedStaging::Create(size_t half_bytes, cudaStream_t stream) {
  std::unique_ptr<PinnedStaging> staging(new PinnedStaging(half_bytes, stream));
  void* memory = nullptr;
  TY_RETURN_IF_ERROR(CudaStatus(cudaHostAlloc(&memory, 2 * half_bytes, cudaHostAllocDefault), "cudaHostAlloc"));
  staging->memory_ = static_cast<std::byte*>(memory);
  for (cudaEvent_t& event : staging->copied_) {
    TY_RETURN_IF_ERROR(CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
  }
  return staging;
}

PinnedStaging::~PinnedStaging() {
  cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : copied_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (memory_ != nullptr) cudaFreeHost(memory_);
}

absl::Status PinnedStaging::Upload(const void* host, size_t bytes, void* device) {
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(device);
  while (bytes > 0) {
    const size_t piece = std::min(bytes, half_bytes_);
    TY_RETURN_IF_ERROR(UploadPiece(from, piece, to));
    from += piece;
    to += piece;
    bytes -= piece;
  }
  return absl::OkStatus();
}

absl::Status PinnedStaging::UploadPiece(const std::byte* host, size_t bytes, std::byte* device) {
  if (filled_ + bytes > half_bytes_) {
    turn_ = 1 - turn_;
    filled_ = 0;
    // An event that was never recorded is complete.
    TY_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(copied_[turn_]), "cudaEventSynchronize"));
  }
  std::byte* const staged = half() + filled_;
  std::memcpy(staged, host, bytes);
  filled_ = std::min(half_bytes_, filled_ + Aligned(bytes));
  TY_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(device, staged, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync to the device"));
  return CudaStatus(cudaEventRecord(copied_[turn_], stream_), "cudaEventRecord");
}

// Every copy before it is done when this one is, so any of the memory may be used.
absl::Status PinnedStaging::Download(const void* device, size_t bytes, void* host) {
  const auto* from = static_cast<const std::byte*>(device);
  auto* to = static_cast<std::byte*>(host);
  TY_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
  filled_ = 0;
  while (bytes > 0) {
    const size_t piece = std::min(bytes, 2 * half_bytes_);
    TY_RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(memory_, from, piece, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync to the host"));
    TY_RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    std::memcpy(to, memory_, piece);
    from += piece;
    to += piece;
    bytes -= piece;
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine::cuda
