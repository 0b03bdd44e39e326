// The backends by name. main links the file that knows them all.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"

namespace trainyard::engine {

// "cpu" with `threads` compute threads (0: the cgroup's quota), or "reference". InvalidArgument for another name.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(std::string_view name, int threads);

}  // namespace trainyard::engine
