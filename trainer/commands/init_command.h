// `trainyard-trainer init DIR`: a job file for the data that lies there.
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// `exit_code` must outlive the parsing; 0 when the job file was written.
void AddInitCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
