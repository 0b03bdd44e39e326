// Options that several subcommands have, with the same words in each.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "trainer/predict/trained_model.h"

namespace trainyard::engine {

inline constexpr int kLargestPort = 65535;

// CHECKPOINT, --best and --job, of subcommands that use a checkpoint. `job` says what the job file
// is for.
void AddModelOptions(CLI::App& command, TrainedModelOptions& model, const std::string& job);
// --set PATH=VALUE, as often as wanted.
void AddSetOption(CLI::App& command, std::vector<std::string>& overrides);
// --backend: what MakeBackend takes. Empty at first: the job says where it computes.
void AddBackendOption(CLI::App& command, std::string& backend);

}  // namespace trainyard::engine
