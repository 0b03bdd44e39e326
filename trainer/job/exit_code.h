// How a replica's process ends: docs/contract.md, "Exit codes".
#pragma once

#include "absl/status/status.h"

namespace trainyard::engine {

inline constexpr int kStoppedExitCode = 143;     // 128 + SIGTERM: the work can go on
inline constexpr int kPeerAbsentExitCode = 200;  // nothing came from a peer for longer than the job's timeouts allow
inline constexpr int kExhaustedExitCode = 201;   // memory, threads or disk ran out

// The launcher and the operator start a replica again after it (docs/contract.md).
constexpr bool CanBeCuredByRestart(int exit_code) { return exit_code >= 128; }

// Of a replica whose work ended with `status`, when nobody asked it to stop. Pure.
int ExitCodeOf(const absl::Status& status);

}  // namespace trainyard::engine
