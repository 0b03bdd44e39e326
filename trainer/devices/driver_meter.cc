#include "trainer/devices/driver_meter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/devices/driver_functions.h"
#include "trainer/devices/shared_library.h"

namespace trainyard::engine {
namespace {

// "8d34a3f1-0123-…": UUIDs as NVML writes them, without the kind in front.
std::string UuidText(const CudaUuid& uuid) {
  std::string text;
  for (size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

absl::StatusOr<std::string> UuidOf(int gpu, const SharedLibrary& cuda) {
  CudaInit init = nullptr;
  CudaGetDevice get_device = nullptr;
  CudaGetUuid get_uuid = nullptr;
  TY_RETURN_IF_ERROR(cuda.Find("cuInit", init));
  TY_RETURN_IF_ERROR(cuda.Find("cuDeviceGet", get_device));
  TY_RETURN_IF_ERROR(cuda.Find("cuDeviceGetUuid_v2", get_uuid));
  int device = 0;
  CudaUuid uuid{};
  CudaResult result = init(0);
  if (result == 0) result = get_device(&device, gpu);
  if (result == 0) result = get_uuid(&uuid, device);
  if (result != 0) return absl::UnavailableError(fmt::format("CUDA's driver does not name cuda:{}: its error {}", gpu, result));
  return UuidText(uuid);
}

struct Nvml {
  NvmlInit init = nullptr;
  NvmlShutdown shutdown = nullptr;
  NvmlErrorString error_string = nullptr;
  NvmlFindDevice find_device = nullptr;
  NvmlGetName get_name = nullptr;
  NvmlGetMemory get_memory = nullptr;
  NvmlGetUtilization get_utilization = nullptr;
};

absl::StatusOr<Nvml> FindNvml(const SharedLibrary& library) {
  Nvml nvml;
  TY_RETURN_IF_ERROR(library.Find("nvmlInit_v2", nvml.init));
  TY_RETURN_IF_ERROR(library.Find("nvmlShutdown", nvml.shutdown));
  TY_RETURN_IF_ERROR(library.Find("nvmlErrorString", nvml.error_string));
  TY_RETURN_IF_ERROR(library.Find("nvmlDeviceGetHandleByUUID", nvml.find_device));
  TY_RETURN_IF_ERROR(library.Find("nvmlDeviceGetName", nvml.get_name));
  TY_RETURN_IF_ERROR(library.Find("nvmlDeviceGetMemoryInfo", nvml.get_memory));
  TY_RETURN_IF_ERROR(library.Find("nvmlDeviceGetUtilizationRates", nvml.get_utilization));
  return nvml;
}

class DriverMeter final : public GpuMeter {
 public:
  // `nvml` was started.
  explicit DriverMeter(const Nvml& nvml) : nvml_(nvml) {}
  ~DriverMeter() override { nvml_.shutdown(); }
  DriverMeter(const DriverMeter&) = delete;
  DriverMeter& operator=(const DriverMeter&) = delete;

  absl::Status Add(int gpu, const std::string& uuid) {
    Watched watched{.gpu = gpu, .device = nullptr, .name = ""};
    NvmlResult result = 0;
    for (const char* kind : {"GPU", "MIG"}) {
      result = nvml_.find_device(fmt::format("{}-{}", kind, uuid).c_str(), &watched.device);
      if (result == 0) break;
    }
    std::array<char, kNvmlNameBytes> name{};
    if (result == 0) result = nvml_.get_name(watched.device, name.data(), kNvmlNameBytes);
    if (result != 0) return absl::UnavailableError(fmt::format("NVML does not know cuda:{}: {}", gpu, nvml_.error_string(result)));
    watched.name = std::string(name.data());
    watched_.push_back(std::move(watched));
    return absl::OkStatus();
  }

  std::vector<GpuReading> Read() override {
    std::vector<GpuReading> readings;
    for (const Watched& watched : watched_) {
      NvmlMemory memory{};
      if (nvml_.get_memory(watched.device, &memory) != 0) continue;
      GpuReading& reading = readings.emplace_back(GpuReading{.gpu = watched.gpu,
                                                             .name = watched.name,
                                                             .memory_used_bytes = static_cast<int64_t>(memory.used),
                                                             .memory_total_bytes = static_cast<int64_t>(memory.total),
                                                             .utilization = std::nullopt});
      NvmlUtilization utilization{};
      if (nvml_.get_utilization(watched.device, &utilization) == 0) reading.utilization = utilization.gpu / 100.0;
    }
    return readings;
  }

 private:
  struct Watched {
    int gpu;
    NvmlDevice device;
    std::string name;
  };

  const Nvml nvml_;
  std::vector<Watched> watched_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuMeter>> OpenDriverMeter(const std::vector<int>& gpus, const DriverLibraries& libraries) {
  TY_ASSIGN_OR_RETURN(const SharedLibrary cuda, SharedLibrary::Open(libraries.cuda));
  TY_ASSIGN_OR_RETURN(const SharedLibrary library, SharedLibrary::Open(libraries.nvml));
  TY_ASSIGN_OR_RETURN(const Nvml nvml, FindNvml(library));
  if (const NvmlResult result = nvml.init(); result != 0) {
    return absl::UnavailableError(fmt::format("NVML does not start: {}", nvml.error_string(result)));
  }
  auto meter = std::make_unique<DriverMeter>(nvml);
  for (const int gpu : gpus) {
    TY_ASSIGN_OR_RETURN(const std::string uuid, UuidOf(gpu, cuda));
    TY_RETURN_IF_ERROR(meter->Add(gpu, uuid));
  }
  return meter;
}

}  // namespace trainyard::engine
