// Page-locked memory of the host on the way to and from a device: the only kind that copies run
// behind the caller from.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"

namespace trainyard::engine::cuda {

// Two halves, filled by turns. One is filled while the other's copies run. Not thread-safe.
class PinnedStaging {
 public:
  // Of `half_bytes` each, for the current device. The stream outlives it.
  static absl::StatusOr<std::unique_ptr<PinnedStaging>> Create(size_t half_bytes, cudaStream_t stream);
  ~PinnedStaging();

  // Starts the copy; the host's memory may be used again at once. Waits where both halves are full
  // of copies that have not run yet.
  absl::Status Upload(const void* host, size_t bytes, void* device);
  // Waits for the copy, and so for the stream's work before it.
  absl::Status Download(const void* device, size_t bytes, void* host);

 private:
  PinnedStaging(size_t half_bytes, cudaStream_t stream) : half_bytes_(half_bytes), stream_(stream) {}
  absl::Status UploadPiece(const std::byte* host, size_t bytes, std::byte* device);
  std::byte* half() const { return memory_ + static_cast<size_t>(turn_) * half_bytes_; }

  const size_t half_bytes_;
  const cudaStream_t stream_;
  std::byte* memory_ = nullptr;
  std::array<cudaEvent_t, 2> copied_{};  // the last copy from each half
  int turn_ = 0;
  size_t filled_ = 0;  // of the half whose turn it is
};

}  // namespace trainyard::engine::cuda
