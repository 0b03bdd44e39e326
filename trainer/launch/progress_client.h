// Reads a replica's /progress.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/report/progress.h"

namespace trainyard::engine {

// The inverse of ProgressJson. InvalidArgument on anything else: the text comes from another
// process.
absl::StatusOr<Progress> ParseProgress(std::string_view json);

// From http://127.0.0.1:<port>/progress, within `timeout`.
absl::StatusOr<Progress> FetchProgress(uint16_t port, absl::Duration timeout);

}  // namespace trainyard::engine
