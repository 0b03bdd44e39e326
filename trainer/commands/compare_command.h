// `trainyard-trainer compare DIR DIR…`: runs side by side.
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// Adds the subcommand to `app`. Its callback sets `exit_code`, which must outlive `app`'s parsing.
void AddCompareCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
