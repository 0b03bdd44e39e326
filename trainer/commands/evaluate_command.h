// `trainyard-trainer evaluate CHECKPOINT`
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace trainyard::engine {

// Prints loss, accuracy and the mistakes of a checkpoint on a data set. `exit_code` must outlive
// parsing.
void AddEvaluateCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
