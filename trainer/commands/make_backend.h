// The backends by name. main links the file that knows them all.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

// "cpu" with `threads` compute threads (0: the cgroup's quota), or "reference". InvalidArgument for
// another name.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name, int threads, Precision precision = Precision::kFloat32);

// One for each of `devices` devices, among which the threads are divided: each has at least one,
// and at most one more than another.
absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeDeviceBackends(std::string_view name, int threads, int devices,
                                                                         Precision precision);

}  // namespace trainyard::engine
