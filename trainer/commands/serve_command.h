// `trainyard-trainer serve CHECKPOINT`
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace trainyard::engine {

// Answers requests for predictions over HTTP and gRPC. `exit_code` must outlive parsing.
void AddServeCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
