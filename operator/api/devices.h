// What a container's resources ({limits: …, requests: …, claims: …}) ask of devices. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace trainyard::control {

// How many GPUs a program can use as cuda:0, cuda:1 …: one process is started for each. Only whole
// GPUs count, under the names of their vendors' device plugins: nvidia.com/gpu, amd.com/gpu,
// gpu.intel.com/i915, gpu.intel.com/xe and habana.ai/gaudi. A process sees one MIG slice
// (nvidia.com/mig-1g.5gb), however many its container has. Shares of a GPU (nvidia.com/gpu.shared)
// may all be of the same one. So neither counts.
int WholeGpus(const nlohmann::json& resources);

// Whether a device plugin or a resource claim gives the container anything: a resource with a
// vendor's name, as all of those above have, or a claim.
bool AsksForDevice(const nlohmann::json& resources);

}  // namespace trainyard::control
