// How a replica's process may end and what follows: the table of docs/contract.md, "Exit codes".
// The contract test runs it through the operator's restart policy and through the launcher's
// supervisor.
#pragma once

#include <array>
#include <string_view>

namespace trainyard {

enum class Outcome { kDone, kRestarts, kRestartsFree, kFails };  // free: spends nothing of backoffLimit

struct ProcessEnd {
  std::string_view policy;  // of a worker that is not the chief; "": the default
  std::string_view rule;    // action of a rule of runPolicy.exitCodes for exactly this code; "": none
  int code;                 // 128 + n: signal n
  Outcome outcome;
};

inline constexpr std::array kProcessEnds = {
    ProcessEnd{"", "", 0, Outcome::kDone},
    ProcessEnd{"", "", 1, Outcome::kFails},
    ProcessEnd{"", "", 2, Outcome::kFails},
    ProcessEnd{"", "", 127, Outcome::kFails},
    ProcessEnd{"", "", 128, Outcome::kRestarts},
    ProcessEnd{"", "", 134, Outcome::kRestarts},
    ProcessEnd{"", "", 137, Outcome::kRestarts},
    ProcessEnd{"", "", 143, Outcome::kRestarts},
    ProcessEnd{"", "", 200, Outcome::kRestartsFree},
    ProcessEnd{"", "", 201, Outcome::kRestarts},
    ProcessEnd{"", "", 255, Outcome::kRestarts},
    ProcessEnd{"", "Restart", 1, Outcome::kRestarts},
    ProcessEnd{"", "Ignore", 137, Outcome::kRestartsFree},
    ProcessEnd{"ExitCode", "", 0, Outcome::kDone},
    ProcessEnd{"ExitCode", "", 1, Outcome::kFails},
    ProcessEnd{"ExitCode", "", 137, Outcome::kRestarts},
    ProcessEnd{"ExitCode", "", 200, Outcome::kRestartsFree},
    ProcessEnd{"ExitCode", "", 201, Outcome::kRestarts},
    ProcessEnd{"ExitCode", "Restart", 1, Outcome::kRestarts},
    ProcessEnd{"ExitCode", "Ignore", 1, Outcome::kRestartsFree},
    ProcessEnd{"ExitCode", "Fail", 137, Outcome::kFails},
    ProcessEnd{"ExitCode", "Restart", 200, Outcome::kRestarts},
    ProcessEnd{"ExitCode", "Fail", 200, Outcome::kFails},
    ProcessEnd{"ExitCode", "Ignore", 201, Outcome::kRestartsFree},
    ProcessEnd{"Never", "", 0, Outcome::kDone},
    ProcessEnd{"Never", "", 1, Outcome::kFails},
    ProcessEnd{"Never", "", 137, Outcome::kFails},
    ProcessEnd{"Never", "", 200, Outcome::kFails},
    ProcessEnd{"Never", "", 201, Outcome::kFails},
    ProcessEnd{"Never", "Restart", 137, Outcome::kFails},
    ProcessEnd{"OnFailure", "", 0, Outcome::kDone},
    ProcessEnd{"OnFailure", "", 1, Outcome::kRestarts},
    ProcessEnd{"OnFailure", "", 137, Outcome::kRestarts},
    ProcessEnd{"OnFailure", "", 200, Outcome::kRestartsFree},
    ProcessEnd{"OnFailure", "", 201, Outcome::kRestarts},
    ProcessEnd{"OnFailure", "Fail", 137, Outcome::kRestarts},
    ProcessEnd{"Always", "", 1, Outcome::kRestarts},
    ProcessEnd{"Always", "", 137, Outcome::kRestarts},
    ProcessEnd{"Always", "", 200, Outcome::kRestartsFree},
    ProcessEnd{"Always", "", 201, Outcome::kRestarts},
};

}  // namespace trainyard
