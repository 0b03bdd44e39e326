#include "trainer/commands/export_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/print_text.h"
#include "trainer/predict/torch_layout.h"
#include "trainer/predict/trained_model.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

struct ExportFlags {
  TrainedModelOptions model;
  std::string format = "safetensors";
  std::string output;
};

// The file's metadata: "format" as PyTorch's loaders look for it.
absl::StatusOr<std::map<std::string, std::string>> MetadataOf(const TrainedModel& model) {
  TY_ASSIGN_OR_RETURN(std::string description, DescriptionJson(model.description));
  return std::map<std::string, std::string>{
      {"format", "pt"}, {"trainyard.step", std::to_string(model.step)}, {"trainyard.model", std::move(description)}};
}

absl::StatusOr<std::string> Exported(const ExportFlags& flags) {
  TY_ASSIGN_OR_RETURN(const TrainedModel model, LoadTrainedModel(flags.model));
  TY_ASSIGN_OR_RETURN(std::vector<TorchTensor> tensors, TorchTensorsOf(model.description.training.model, model.parameters));
  std::vector<NamedTensor> named;
  int64_t numbers = 0;
  for (TorchTensor& tensor : tensors) {
    named.push_back({tensor.name, {DType::kF32, tensor.shape, tensor.values.data()}});
    numbers += tensor.shape.elements();
  }
  TY_ASSIGN_OR_RETURN(const auto metadata, MetadataOf(model));
  TY_ASSIGN_OR_RETURN(const std::string bytes, SerializeSafetensors(named, metadata));
  TY_RETURN_IF_ERROR(ReplaceFile(flags.output, bytes));
  return fmt::format("{}: {} tensors, {} numbers, of {} (step {})\n", flags.output, named.size(), numbers, model.checkpoint, model.step);
}

}  // namespace

void AddExportCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", "write a checkpoint's parameters for other programs");
  command->add_option("CHECKPOINT", flags->model.path, "a run's output folder, its folder of checkpoints, or one checkpoint")
      ->type_name("DIR")
      ->required();
  OneOf(command->add_option("--format", flags->format, "safetensors: with the names and layouts of PyTorch"), {"safetensors"})
      ->capture_default_str();
  command->add_option("--output", flags->output, "the file to write; one of that name is replaced")->type_name("FILE")->required();
  command->add_flag("--best", flags->model.best, "the run's best checkpoint in place of the newest");
  command->add_option("--job", flags->model.job, "the job file of the training, of a checkpoint that an older version wrote")
      ->type_name("FILE");
  command->footer("trainyard-trainer export runs/lenet5-local/DATE --output lenet5.safetensors");
  command->callback([flags, &exit_code] { exit_code = PrintText(Exported(*flags)); });
}

}  // namespace trainyard::engine
