// `trainyard-trainer generate DIR`
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace trainyard::engine {

// Writes text of a trained language model to stdout. `exit_code` must outlive parsing.
void AddGenerateCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
