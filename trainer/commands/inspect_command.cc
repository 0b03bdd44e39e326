#include "trainer/commands/inspect_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/inspect.h"
#include "trainer/commands/make_backend.h"
#include "trainer/commands/print_text.h"

namespace trainyard::engine {
namespace {

struct InspectFlags {
  std::string file;
  std::string backend = "cpu";
  std::vector<std::string> overrides;
};

absl::StatusOr<std::string> InspectFile(const InspectFlags& flags) {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(flags.backend, /*threads=*/1));
  return Inspect(flags.file, flags.overrides, *backend);
}

}  // namespace

void AddInspectCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand("inspect", "print the graph of a job: nodes, shapes, parameters, FLOPs, memory");
  command->add_option("FILE", flags->file, "TrainingJob file or training.json")->type_name("FILE")->required();
  OneOf(command->add_option("--backend", flags->backend, "backend whose memory layout is printed"), {"cpu", "cuda", "reference"})
      ->capture_default_str();
  AddSetOption(*command, flags->overrides);
  command->footer(
      "trainyard-trainer inspect examples/resnet56-cifar10.yaml\n"
      "trainyard-trainer inspect job.yaml --set training.batchSize=256");
  command->callback([flags, &exit_code] { exit_code = PrintText(InspectFile(*flags)); });
}

}  // namespace trainyard::engine
