// A replica's termination message, for the job's status: the kubelet reads it from this file
// (docs/contract.md).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

inline constexpr char kTerminationLog[] = "/dev/termination-log";

// Replaces what `path` says by at most 2 KiB of `text`. OK without a file there: the replica runs
// in no pod.
absl::Status LeaveTerminationMessage(const std::string& path, std::string_view text);

}  // namespace trainyard::engine
