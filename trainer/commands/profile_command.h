// `trainyard-trainer profile DIR`: makes trace and tables of what the replicas of a job recorded.
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// Adds the subcommand to `app`. Its callback sets `exit_code`, which must outlive `app`'s parsing:
// 0, or 1 when DIR holds no profile.
void AddProfileCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
