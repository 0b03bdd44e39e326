// Whether a replica that ended starts again: docs/contract.md, "Exit codes". Pure. The operator
// keeps the same rules in its own words; tests/process_ends.h holds both to one table.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/job/job_config.h"

namespace trainyard::engine {

enum class RestartDecision : uint8_t {
  kRestart,      // it starts again and spends one restart of runPolicy.backoffLimit
  kRestartFree,  // it starts again and spends nothing: the fault is a peer's, which has spent its own restart, or a rule says Ignore
  kFail,         // a restart does not cure it: the job fails
};

// `exit_code` is not 0; 128 + n for signal n.
// Never: kFail. ExitCode: the first of `rules` that holds the code decides; without one 1-127
// kFail, 200 kRestartFree, others kRestart. Always and OnFailure: 200 kRestartFree, others
// kRestart.
RestartDecision DecideRestart(RestartPolicy policy, std::span<const ExitCodeRule> rules, int exit_code);

}  // namespace trainyard::engine
