// What the GPUs of a process do: their memory and how busy they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// One GPU now, with all that any process does on it.
struct GpuReading {
  int gpu = 0;       // its number among those that the process sees
  std::string name;  // "NVIDIA H100 80GB HBM3"
  int64_t memory_used_bytes = 0;
  int64_t memory_total_bytes = 0;
  // The share of the last moment in which a kernel ran, 0 to 1. Nothing for a slice of a GPU (MIG),
  // of which the driver does not know it.
  std::optional<double> utilization;
  friend bool operator==(const GpuReading&, const GpuReading&) = default;
};

class GpuMeter {
 public:
  virtual ~GpuMeter() = default;
  // In microseconds to a few milliseconds. GPUs that give no answer are left out.
  virtual std::vector<GpuReading> Read() = 0;
};

}  // namespace trainyard::engine
