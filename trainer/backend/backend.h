// A backend turns a node into a kernel for one kind of device, and knows in which layout values lie
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/graph/graph.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/tensor/tensor.h"

namespace trainyard::engine {

class DeviceGroup;
class DeviceOptimizer;
class DeviceTraining;
class ThreadPool;
struct OptimizerConfig;

// Random ops depend on seed, step, worker and the element.
struct StepContext {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t worker = 0;
  bool training = true;
  // Multiplies the gradient of the loss, and so all gradients that a step makes
  // (optim/loss_scale.h).
  float loss_scale = 1.0f;
};

// One run of one kernel. Pointers follow the node's inputs and outputs and are in the backend's
// layout. Parameters and parameter results are the caller's own row-major f32 where
// KernelsUseHostParameters. All are aligned to kBufferAlignment. outputs[i], i > 0, is null where
// nothing reads it (argmax and probabilities in an evaluation).
struct KernelContext {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  void* scratch = nullptr;  // Kernel::scratch_bytes() of any content
  // Of a gradient in outputs[0] that the op fills row by row (an embedding's): the rows that the
  // step before filled. The kernel clears them and brings the list up to date. Null: the memory
  // holds anything, and no caller reads the list.
  TouchedRows* touched_rows = nullptr;
  const StepContext& step;

  template <typename T>
  const T* input(int i) const {
    return static_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* output(int i) const {
    return static_cast<T*>(outputs[i]);
  }
};

// One node, ready to run any number of times. Run allocates nothing and writes every element of
// every output. Where MayRunInPlace (ops/rules.h) allows it, outputs[0] may equal that input.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void Run(const KernelContext& context) = 0;
  // Of inference (RewriteOptions), once before the first Run, where KernelsUseHostParameters: the
  // node's inputs, null where an input is no parameter. May allocate what the kernel keeps of them.
  virtual void Prepare(std::span<const void* const> /*inputs*/) {}
  // Working memory wanted during Run; shared by all kernels of an executor.
  virtual size_t scratch_bytes() const { return 0; }
};

// A block of a device's memory, aligned to kBufferAlignment; freed with the object.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // On a device with memory of its own an address there, which only the backend may follow.
  virtual std::byte* data() = 0;
};

// Host memory, zeroed. ResourceExhausted says that it was for `what`.
absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateOnHost(std::string_view what, size_t bytes);

// A parameter's result in the device's memory, where every step leaves it.
struct DeviceResult {
  ValueSpec spec;
  const void* value = nullptr;
};

// Runs the steps of one executor on a device that works behind the caller. So it may keep what a
// step starts and start that again, and copy results while kernels run.
class DeviceSteps {
 public:
  virtual ~DeviceSteps() = default;
  // `start` starts all kernels, and calls StartDownload where a result is made: with the same
  // pointers, and in the same order, in all steps that have the same StepContext::training. It is
  // called, or what it started in an earlier step starts again.
  virtual void Run(const StepContext& step, absl::FunctionRef<void()> start) = 0;
  virtual void StartDownload(int result) = 0;
  // Waits for the result of this Run and stores it.
  virtual void FinishDownload(int result, const Tensor& host) = 0;
};

struct DeviceTrainingOptions {
  std::span<const ParameterSpec> specs;
  const OptimizerConfig& optimizer;
  bool skips_not_finite = false;  // a step with a loss or gradient that is not finite is left out
};

struct RewriteOptions {
  bool fuse = true;  // in fewer nodes (FuseEpilogues)
  // The graph is forward only. It runs with StepContext::training false, and with the same values
  // of its parameters at the same place until its kernels' end.
  bool inference = false;
};

// Outlives its kernels and its memory. Compile may be slow (it may time candidates).
class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;
  // What its products run on, for people: "avx512", "amx".
  virtual std::string_view kernels() const = 0;
  // Whether kernels read and write the memory of this process.
  virtual bool uses_host_memory() const = 0;
  // Of this process, that share the work of its kernels; between runs of these anybody may use
  // them. Null: kernels run on the thread of their caller, or elsewhere.
  virtual ThreadPool* threads() { return nullptr; }
  // The type of values' real numbers: kF32 or kF64.
  virtual DType real() const = 0;
  // The forward graph as this device runs it: the same outputs, parameters, results and states;
  // values laid out. The backward nodes that are added behind it must run too.
  virtual Graph Rewrite(const Graph& forward, const RewriteOptions& options) const = 0;
  // Memory for all values of an executor, which `what` names in an error.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) = 0;
  // Size of a value in this backend's layout, lanes of padding included.
  virtual size_t BytesFor(const ValueSpec& spec) const = 0;
  // Never called for sources and aliases (graph/op.h). Unimplemented where the backend lacks the
  // op: the error names node and op. `inference` as the graph was rewritten.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Compile(const Graph& graph, NodeId node, bool inference) = 0;
  // Before a step's uploads and kernels.
  virtual void BeginStep(const StepContext& /*step*/) {}
  // For one executor with memory of its own on the device. Null: kernels are started one by one.
  virtual absl::StatusOr<std::unique_ptr<DeviceSteps>> MakeDeviceSteps(std::vector<DeviceResult> /*results*/) { return nullptr; }
  // A training that keeps its parameters in the device's memory. Null: kernels use the host's.
  virtual absl::StatusOr<std::unique_ptr<DeviceTraining>> MakeDeviceTraining(const DeviceTrainingOptions& options);
  // Parameters and their optimizer in the device's memory, for gradients that come from the host.
  // Null: kernels use the host's.
  virtual absl::StatusOr<std::unique_ptr<DeviceOptimizer>> MakeDeviceOptimizer(const DeviceTrainingOptions& options);
  // A training on this device and on those of `others`. Null where one of them is of another kind,
  // too.
  virtual absl::StatusOr<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(std::span<Backend* const> others,
                                                                       const DeviceTrainingOptions& options);
  // The first failure of the device, which names the call and the node; after it nothing runs any
  // more. A device that works behind the caller may tell a kernel's failure at a later call, a
  // Download at the latest.
  virtual absl::Status status() const { return absl::OkStatus(); }
  // host (row-major; u8, i32 or f32) → value. u8 becomes f32 times u8_scale. host has the value's
  // elements; checked by the caller.
  virtual void Upload(const ValueSpec& spec, float u8_scale, const Tensor& host, void* value) = 0;
  // value → host, row-major, of the value's dtype (f32 values also to f64).
  virtual void Download(const ValueSpec& spec, const void* value, const Tensor& host) = 0;
};

// Kernels read parameters and write parameter results in place, as row-major f32 in host memory.
// Otherwise the executor uploads parameters before a step and downloads results as they become
// ready.
inline bool KernelsUseHostParameters(const Backend& backend) { return backend.uses_host_memory() && backend.real() == DType::kF32; }

}  // namespace trainyard::engine
