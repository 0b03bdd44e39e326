#include "trainer/commands/make_backend.h"

#include <algorithm>
#include <utility>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cuda/cuda_backend.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/cpu_quota.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/devices/gpu_environment.h"
#include "trainer/job/replica_identity.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kBackendFlag = "--backend";

}  // namespace

absl::StatusOr<BackendPlan> PlanBackends(std::string_view name, WantedDevices wanted) {
  if (name == "reference") return BackendPlan{.reference = true, .devices = {}};
  if (!name.empty()) {
    wanted.field = kBackendFlag;
    absl::StatusOr<DeviceRequest> request = ParseDeviceRequest(name);
    if (!request.ok()) return absl::InvalidArgumentError(fmt::format("{}: {}", kBackendFlag, std::string(request.status().message())));
    wanted.request = *std::move(request);
  }
  TY_ASSIGN_OR_RETURN(DeviceChoice devices, ChooseDevices(wanted, ReadGpuEnvironment(ProcessEnvironment()), CudaDeviceCount));
  return BackendPlan{.reference = false, .devices = std::move(devices)};
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const BackendPlan& plan, int threads, Precision precision) {
  if (IsOfGpus(precision) && plan.devices.gpus.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "precision: found {}, which only GPUs have, but this process computes on the {}; use float32, bfloat16 or auto, or a GPU",
        PrecisionName(precision), plan.reference ? "reference backend" : "processor"));
  }
  if (plan.reference) return MakeReferenceBackend(DType::kF32, precision);
  if (plan.devices.gpus.empty()) return MakeCpuBackend({.threads = threads, .precision = precision});
  return MakeCudaBackend({.device = plan.devices.gpus[0], .precision = precision});
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name, int threads, Precision precision) {
  TY_ASSIGN_OR_RETURN(const BackendPlan plan, PlanBackends(name, {}));
  if (name == "auto") LogInfo("{}: auto takes {}: {}", kBackendFlag, ChosenText(plan.devices), plan.devices.reason);
  return MakeBackend(plan, threads, precision);
}

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeDeviceBackends(const BackendPlan& plan, int threads, int devices,
                                                                         Precision precision) {
  const int all = threads > 0 ? threads : CpuQuota();
  std::vector<std::unique_ptr<Backend>> backends;
  for (int device = 0; device < devices; ++device) {
    const int share = all * (device + 1) / devices - all * device / devices;
    BackendPlan of_device = plan;
    if (!plan.devices.gpus.empty()) of_device.devices.gpus = {plan.devices.gpus[static_cast<size_t>(device)]};
    TY_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeBackend(of_device, std::max(1, share), precision));
    backends.push_back(std::move(backend));
  }
  return backends;
}

}  // namespace trainyard::engine
