// `trainyard-trainer bench`: flags → BenchStep → text or JSON on standard output.
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// Adds the subcommand to `app`; its callback sets `exit_code`: 0, or 1 after an error, which is
// printed. `exit_code` must outlive parsing.
void AddBenchCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
