// `trainyard-trainer predict CHECKPOINT FILE…`
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace trainyard::engine {

// Prints what a checkpoint predicts for the examples of files. `exit_code` must outlive parsing.
void AddPredictCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
