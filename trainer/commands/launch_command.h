// `trainyard-trainer launch FILE`: flags → LaunchLocally → exit status.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace trainyard::engine {

struct RunningProgram {
  std::string program;    // the path of the running executable
  std::string called_as;  // what a user types to start it
};

// Adds the subcommand to `app`. Its callback sets `exit_code`, which must outlive `app`'s parsing:
// 0 only when the job Succeeded, 130 when it was stopped, 1 otherwise.
void AddLaunchCommand(CLI::App& app, const RunningProgram& running, int& exit_code);

}  // namespace trainyard::engine
