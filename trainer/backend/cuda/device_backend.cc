#include "trainer/backend/cuda/device_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/health.h"
#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/recorded_steps.h"
#include "trainer/backend/cuda/resident_group.h"
#include "trainer/backend/cuda/resident_optimizer.h"
#include "trainer/backend/cuda/resident_training.h"
#include "trainer/backend/narrow_values.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine::cuda {
namespace {

class PlannedKernel final : public Kernel {
 public:
  PlannedKernel(std::string name, NodePlan plan, Health& health)
      : name_(fmt::format("node '{}'", name)), plan_(std::move(plan)), health_(health) {}
  void Run(const KernelContext& context) override {
    health_.Try(name_, [&] { return plan_.run(context); });
  }
  size_t scratch_bytes() const override { return plan_.scratch_bytes; }

 private:
  const std::string name_;
  const NodePlan plan_;
  Health& health_;
};

class DeviceBackend final : public Backend {
 public:
  DeviceBackend(std::unique_ptr<Device> device, std::unique_ptr<DeviceMemory> step, const DeviceBackendOptions& options)
      : device_(std::move(device)),
        step_(std::move(step)),
        planner_{*device_, reinterpret_cast<const DeviceStep*>(step_->data()), options.precision, options.column_bytes} {}

  std::string_view name() const override { return "cuda"; }
  std::string_view kernels() const override { return device_->description(); }
  bool uses_host_memory() const override { return false; }
  DType real() const override { return DType::kF32; }
  absl::Status status() const override { return health_.status(); }

  Graph Rewrite(const Graph& forward, const RewriteOptions& options) const override {
    Graph graph = options.fuse ? FuseEpilogues(forward) : forward;
    return Narrows(planner_.precision) ? NarrowValues(graph, NarrowReach::kConvolutions) : graph;
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(std::string_view what, size_t bytes) override {
    return device_->Allocate(what, bytes);
  }
  size_t BytesFor(const ValueSpec& spec) const override { return static_cast<size_t>(spec.shape.elements() * ElementBytes(spec)); }

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(const Graph& graph, NodeId id, bool /*inference*/) override {
    const NodeView node(graph, id);
    return std::visit(
        [&]<typename T>(const T& op) -> absl::StatusOr<std::unique_ptr<Kernel>> {
          if constexpr (kIsSource<T> || kIsAlias<T>) {
            return absl::UnimplementedError(fmt::format("node '{}': {} takes no kernel", node.node().name, OpName(op)));
          } else if constexpr (kIsOfCpu<T>) {
            return absl::UnimplementedError(
                fmt::format("node '{}': the cuda backend has no kernel for op {}", node.node().name, OpName(op)));
          } else {
            absl::StatusOr<NodePlan> plan = PlanNode(planner_, node, op);
            if (!plan.ok()) return WithContext(plan.status(), fmt::format("node '{}'", node.node().name));
            return std::make_unique<PlannedKernel>(node.node().name, *std::move(plan), health_);
          }
        },
        graph.node(id).op);
  }

  absl::StatusOr<std::unique_ptr<DeviceSteps>> MakeDeviceSteps(std::vector<DeviceResult> results) override {
    return RecordedSteps::Create(*device_, health_, std::move(results));
  }

  absl::StatusOr<std::unique_ptr<DeviceTraining>> MakeDeviceTraining(const DeviceTrainingOptions& options) override {
    return ResidentTraining::Create(*device_, health_, ScaleOfLoss(), options);
  }

  absl::StatusOr<std::unique_ptr<DeviceOptimizer>> MakeDeviceOptimizer(const DeviceTrainingOptions& options) override {
    return ResidentOptimizer::Create(*device_, health_, options);
  }

  absl::StatusOr<std::unique_ptr<DeviceGroup>> MakeDeviceGroup(std::span<Backend* const> others,
                                                               const DeviceTrainingOptions& options) override {
    std::vector<GroupPlace> places{{*device_, health_, ScaleOfLoss()}};
    for (Backend* const other : others) {
      auto* const same = dynamic_cast<DeviceBackend*>(other);
      if (same == nullptr) return nullptr;
      places.push_back({*same->device_, same->health_, same->ScaleOfLoss()});
    }
    if (places.size() > MeanOverDevices::kMost) return nullptr;
    return ResidentGroup::Create(places, options);
  }

  void BeginStep(const StepContext& step) override {
    const DeviceStep now{step.seed, step.step, step.worker, step.training ? 1u : 0u, step.loss_scale};
    health_.Try("the step's number", [&] { return device_->Upload(&now, sizeof now, step_->data()); });
  }

  void Upload(const ValueSpec& spec, float u8_scale, const Tensor& host, void* value) override {
    health_.Try("upload", [&]() -> absl::Status {
      if (host.dtype != DType::kU8 || spec.dtype != DType::kF32) return device_->Upload(host.data, host.bytes(), value);
      if (host.bytes() > pixels_bytes_) {
        TY_ASSIGN_OR_RETURN(pixels_, device_->Allocate("the pixels of a batch", host.bytes()));
        pixels_bytes_ = host.bytes();
      }
      TY_RETURN_IF_ERROR(device_->Upload(host.data, host.bytes(), pixels_->data()));
      return device_->Launch(Each<ScaleBytes>{{reinterpret_cast<const uint8_t*>(pixels_->data()), static_cast<float*>(value), u8_scale},
                                              spec.shape.elements()});
    });
  }

  void Download(const ValueSpec& spec, const void* value, const Tensor& host) override {
    const auto elements = static_cast<size_t>(spec.shape.elements());
    health_.Try("download", [&]() -> absl::Status {
      if (spec.dtype == host.dtype) return device_->Download(value, host.bytes(), host.data);
      floats_.resize(std::max(floats_.size(), elements));
      TY_RETURN_IF_ERROR(device_->Download(value, elements * sizeof(float), floats_.data()));
      std::copy_n(floats_.begin(), elements, host.values<double>().begin());
      return absl::OkStatus();
    });
  }

 private:
  // Of the step in hand, on the device.
  const float* ScaleOfLoss() const { return planner_.precision == Precision::kFloat16 ? &planner_.step->loss_scale : nullptr; }

  const std::unique_ptr<Device> device_;
  const std::unique_ptr<DeviceMemory> step_;  // a DeviceStep
  const Planner planner_;
  Health health_;
  std::unique_ptr<DeviceMemory> pixels_;  // as they are fed
  size_t pixels_bytes_ = 0;
  std::vector<float> floats_;  // on their way to f64
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeDeviceBackend(std::unique_ptr<Device> device, const DeviceBackendOptions& options) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> step, device->Allocate("the step's number", sizeof(DeviceStep)));
  return std::make_unique<DeviceBackend>(std::move(device), std::move(step), options);
}

}  // namespace trainyard::engine::cuda
