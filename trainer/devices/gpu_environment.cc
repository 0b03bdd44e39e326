#include "trainer/devices/gpu_environment.h"

namespace trainyard::engine {

GpuEnvironment ReadGpuEnvironment(const std::function<const char*(const char* name)>& environment) {
  const auto read = [&environment](const char* name) {
    const char* const value = environment(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  return {.in_pod = read("KUBERNETES_SERVICE_HOST").has_value(),
          .cuda_visible = read("CUDA_VISIBLE_DEVICES"),
          .nvidia_visible = read("NVIDIA_VISIBLE_DEVICES")};
}

}  // namespace trainyard::engine
