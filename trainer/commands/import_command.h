// `trainyard-trainer import FILE --job JOB --output DIR`
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace trainyard::engine {

// Writes a checkpoint with the weights of an ONNX file, from which a training of the job goes on.
// `exit_code` must outlive parsing.
void AddImportCommand(CLI::App& app, int& exit_code);

}  // namespace trainyard::engine
