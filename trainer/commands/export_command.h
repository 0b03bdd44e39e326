// `trainyard-trainer export CHECKPOINT`
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace trainyard::engine {

// Writes a checkpoint's parameters for other programs. `exit_code` must outlive parsing.
void AddExportCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
