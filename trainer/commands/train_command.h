// `trainyard-trainer train`: one replica of a job, by environment (pods, launch) or by flags (by
// hand, the tutorials' way).
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// Adds the subcommand to `app`; its callback sets `exit_code` as docs/contract.md has it. It must
// outlive the parsing.
void AddTrainCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
