// What the environment says of GPUs, to this process and to its container.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace trainyard::engine {

struct GpuEnvironment {
  bool in_pod = false;
  // CUDA_VISIBLE_DEVICES, which the driver obeys: it hides all others, and numbers these from 0.
  std::optional<std::string> cuda_visible;
  // NVIDIA_VISIBLE_DEVICES: what a container runtime was asked to show. Device plugins name the
  // GPUs that they gave. "void" stands there in pods that were given none, and in pods whose GPUs
  // came by the container device interface. "all" comes from an image.
  std::optional<std::string> nvidia_visible;
};

// From variables by name (→ value, or null).
GpuEnvironment ReadGpuEnvironment(const std::function<const char*(const char* name)>& environment);

}  // namespace trainyard::engine
