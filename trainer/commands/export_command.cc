#include "trainer/commands/export_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "trainer/base/output_file.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/print_text.h"
#include "trainer/onnx/export_model.h"
#include "trainer/predict/torch_layout.h"
#include "trainer/predict/trained_model.h"
#include "trainer/tensor/safetensors.h"

namespace trainyard::engine {
namespace {

struct ExportFlags {
  TrainedModelOptions model;
  std::string format = "safetensors";
  std::string transforms;
  std::string output;
};

using Metadata = std::map<std::string, std::string>;

absl::StatusOr<Metadata> MetadataOf(const TrainedModel& model) {
  TY_ASSIGN_OR_RETURN(std::string description, DescriptionJson(model.description));
  return Metadata{{"trainyard.step", std::to_string(model.step)}, {"trainyard.model", std::move(description)}};
}

absl::StatusOr<std::string> TorchFile(const TrainedModel& model, Metadata metadata) {
  TY_ASSIGN_OR_RETURN(std::vector<TorchTensor> tensors, TorchTensorsOf(model.description.training.model, model.parameters));
  std::vector<NamedTensor> named;
  for (TorchTensor& tensor : tensors) named.push_back({tensor.name, {DType::kF32, tensor.shape, tensor.values.data()}});
  metadata["format"] = "pt";  // as PyTorch's loaders look for it
  return SerializeSafetensors(named, metadata);
}

// Our own names and layouts are those of Keras.
absl::StatusOr<std::string> KerasFile(const TrainedModel& model, const Metadata& metadata) {
  std::vector<NamedTensor> named;
  AppendTensors(model.parameters, "", named);
  return SerializeSafetensors(named, metadata);
}

absl::StatusOr<std::string> OnnxFile(const TrainedModel& model, const std::string& taken, Metadata metadata) {
  OnnxExportOptions options{.transforms = std::nullopt, .label_scale = std::nullopt, .metadata = std::move(metadata)};
  const ModelSpec& spec = model.description.training.model;
  if (!taken.empty()) {
    const DType dtype = taken == "uint8" ? DType::kU8 : DType::kF32;
    const std::vector<FittedColumn> columns = model.description.training.data.fitted.value_or(std::vector<FittedColumn>());
    TY_ASSIGN_OR_RETURN(options.transforms, InputTransformsOf(model.description.transforms, dtype, spec.input_shape, columns));
    options.label_scale = model.description.training.data.label_scale;
  }
  return OnnxModelOf(spec, model.parameters, options);
}

absl::StatusOr<std::string> FileOf(const ExportFlags& flags, const TrainedModel& model) {
  TY_ASSIGN_OR_RETURN(Metadata metadata, MetadataOf(model));
  if (flags.format == "onnx") return OnnxFile(model, flags.transforms, std::move(metadata));
  return flags.format == "keras-names" ? KerasFile(model, metadata) : TorchFile(model, std::move(metadata));
}

absl::StatusOr<std::string> Exported(const ExportFlags& flags) {
  if (!flags.transforms.empty() && flags.format != "onnx") {
    return absl::InvalidArgumentError(fmt::format(
        "--with-transforms: found it with --format {}, expected --format onnx: other files hold parameters alone", flags.format));
  }
  TY_ASSIGN_OR_RETURN(const TrainedModel model, LoadTrainedModel(flags.model));
  TY_ASSIGN_OR_RETURN(const std::string bytes, FileOf(flags, model));
  TY_RETURN_IF_ERROR(WriteOutputFile(flags.output, bytes));
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(flags.output, unknown)) return "";  // standard output may be a reader of the bytes
  return fmt::format("{}: {} with {} numbers, of {} (step {})\n", flags.output, flags.format, model.parameters.elements(), model.checkpoint,
                     model.step);
}

}  // namespace

void AddExportCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", "write a checkpoint's network or parameters as a file for other programs");
  AddModelOptions(*command, flags->model, "job file of the training, for a checkpoint that an older version wrote");
  OneOf(
      command->add_option("--format", flags->format,
                          "onnx: the network, to be run by other programs; safetensors: parameters with the names and layouts of PyTorch; "
                          "keras-names: the same with those of Keras"),
      {"onnx", "safetensors", "keras-names"})
      ->capture_default_str();
  OneOf(command->add_option("--with-transforms", flags->transforms,
                            "put the training's changes of an example into the ONNX graph, which then takes bytes (uint8) or other numbers "
                            "(float32) as the training's files have them"),
        {"uint8", "float32"});
  command->add_option("--output", flags->output, "file to write; an existing file is replaced, a device or pipe is written to")
      ->type_name("FILE")
      ->required();
  command->footer(
      "trainyard-trainer export runs/lenet5-local/DATE --output lenet5.safetensors\n"
      "trainyard-trainer export runs/lenet5-local/DATE --format onnx --with-transforms uint8 --output lenet5.onnx\n"
      "trainyard-trainer export out --format keras-names --output weights.safetensors");
  command->callback([flags, &exit_code] { exit_code = PrintText(Exported(*flags)); });
}

}  // namespace trainyard::engine
