// What the backend asks of a device. One implementation drives a GPU (driver/), one runs the same
// work by loops in host memory, for tests.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/convolution.h"
#include "trainer/backend/cuda/product.h"
#include "trainer/backend/cuda/work.h"

namespace trainyard::engine::cuda {

// A product that is ready to run, on operands in device memory. bias is null unless the shape has
// one.
class ProductPlan {
 public:
  virtual ~ProductPlan() = default;
  virtual absl::Status Run(const void* a, const void* b, void* c, const float* bias) = 0;
};

// Likewise a convolution. Kernels, and their gradients, are [D, size, C] here. The part that is
// made goes to `made`; its own argument is null.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  // Working memory wanted during Run.
  virtual size_t workspace_bytes() const = 0;
  virtual absl::Status Run(const void* x, const void* w, const void* z, void* made, void* workspace) = 0;
};

// A sequence of work that was recorded, ready to be started as often as wanted.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual absl::Status Launch() = 0;
};

// A place in the work of one device, for the work of others to wait for.
class Mark {
 public:
  virtual ~Mark() = default;
  // Behind the work that its device was given so far. A call for the device; no other thread may be
  // in WaitFor with this mark.
  virtual absl::Status Set() = 0;
};

// Work runs in the order in which it was given, after the call has returned. An error of work may
// come with any later call: it names the call that found it. Not thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  // For people: "NVIDIA H100 80GB HBM3".
  virtual std::string_view description() const = 0;
  // ResourceExhausted says that it was for `what`.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) = 0;
  virtual absl::Status Launch(const Work& work) = 0;
  virtual absl::StatusOr<std::unique_ptr<ProductPlan>> Plan(const ProductShape& shape) = 0;
  // Null where the device has no way of its own, so that a product of columns must do.
  virtual absl::StatusOr<std::unique_ptr<ConvolutionPlan>> Plan(const ConvolutionShape& shape) = 0;
  // The host's memory may be used again when Upload returns.
  virtual absl::Status Upload(const void* host, size_t bytes, void* device) = 0;
  // Returns when the bytes are there, and so all work before.
  virtual absl::Status Download(const void* device, size_t bytes, void* host) = 0;

  // Memory of the host that StartDownload may copy to.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocatePinned(std::string_view what, size_t bytes) = 0;
  // Copies behind the work given so far, and beside the work given until JoinDownloads, none of
  // which may write over `device`.
  virtual absl::Status StartDownload(const void* device, size_t bytes, void* pinned) = 0;
  // Ends the copies' time beside other work: what is given after it runs behind them.
  virtual absl::Status JoinDownloads() = 0;
  // Waits for all work given so far.
  virtual absl::Status Wait() = 0;

  // Between the devices of one process, all of one kind; two may be on one GPU.
  virtual absl::StatusOr<std::unique_ptr<Mark>> MakeMark() = 0;
  // Work given from here on runs behind the place where another device's mark was last set. It
  // waits for nothing where the mark never was.
  virtual absl::Status WaitFor(const Mark& mark) = 0;
  // Once for each device that CopyFrom will name.
  virtual absl::Status Meet(const Device& peer) = 0;
  // From the memory of `peer`, which must stay as it is until the copy has run.
  virtual absl::Status CopyFrom(const Device& peer, const void* from, size_t bytes, void* to) = 0;

  // From here to EndRecording launches, products, convolutions and started downloads are recorded
  // and do not run. Nothing else may be called between the two. A step must have run before.
  virtual absl::Status BeginRecording() = 0;
  // Whatever it returns, nothing is recorded any more.
  virtual absl::StatusOr<std::unique_ptr<Recording>> EndRecording() = 0;
};

}  // namespace trainyard::engine::cuda
