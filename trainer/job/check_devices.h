// Whether the devices of a job's workers add up to the sums that its strategy makes.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// The most devices of all workers together: a record tells in 16 bits how many are in its sum.
inline constexpr int kMostDevicesOfJob = 65'535;

// What is wrong with so many devices on each of `workers` workers, in words that follow the
// field's name; "": nothing. In a synchronous job of several workers the sum of a worker's devices
// must be a node of the tree over all devices (trainer/collectives/tree_order.h).
std::string WrongDevices(const TrainingConfig& config, int workers);

// InvalidArgument names the field.
absl::Status CheckDevices(const TrainingConfig& config, int workers);

}  // namespace trainyard::engine
