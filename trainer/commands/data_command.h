// `trainyard-trainer data …`: converts the data of a job to a dataset store, looks at stores, and
// measures input pipelines.
#pragma once

namespace CLI {
class App;
}

namespace trainyard::engine {

// `exit_code` must outlive the parsing; 0 when the command did what it was asked.
void AddDataCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
