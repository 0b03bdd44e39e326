// `trainyard-trainer launch FILE`: flags → LaunchLocally → exit status.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace trainyard::engine {

// Adds the subcommand to `app`; its callback sets `exit_code`: 0 only when the job Succeeded, 130 when it was stopped, 1 otherwise.
// `program` is the path of the running executable. Both must outlive `app`'s parsing.
void AddLaunchCommand(CLI::App& app, const std::string& program, int& exit_code);

}  // namespace trainyard::engine
