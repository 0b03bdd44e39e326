// `trainyard-trainer inspect FILE`: prints the graph that a job trains.
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// Adds the subcommand to `app`; its callback sets `exit_code`: 0, or 1 when the file is bad. It
// must outlive the parsing.
void AddInspectCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
