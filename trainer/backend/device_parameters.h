// Parameters and optimizer slots that stay in a device's memory.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Executors that are given it (ExecutorOptions) run with these parameters. Not thread-safe. The
// backend outlives it.
class DeviceParameters {
 public:
  virtual ~DeviceParameters() = default;
  // The address in the device's memory of row-major f32.
  virtual void* parameter(int key) = 0;
  // Host → device. `slots` are in the optimizer's order. Without any the device's stay as they are.
  virtual absl::Status Load(const ParameterSet& parameters, std::span<const ParameterSet> slots) = 0;
  // Device → host, behind all work given so far.
  virtual absl::Status FetchParameters(ParameterSet& parameters) = 0;
  virtual absl::Status FetchSlots(std::span<ParameterSet> slots) = 0;
  virtual int64_t slot_bytes() const = 0;
};

}  // namespace trainyard::engine
