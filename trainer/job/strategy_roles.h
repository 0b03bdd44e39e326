// Which replicas the job of a strategy has: the one home of these rules in the trainer, for job
// files (job_config.cc) and for replicas that are started by hand (check_role.cc).
#pragma once

#include <string_view>

#include "trainer/job/training_config.h"

namespace trainyard::engine {

struct StrategyRoles {
  std::string_view name;            // of the strategy, as a job file has it
  std::string_view no_servers_why;  // "": at least one server; else none
  bool many_trainers = true;        // workers and chiefs; else one
  bool chief = true;                // may be a replica of its own; else worker 0 is the chief

  bool servers() const { return no_servers_why.empty(); }
};

StrategyRoles RolesOf(StrategyConfig::Kind kind);

}  // namespace trainyard::engine
