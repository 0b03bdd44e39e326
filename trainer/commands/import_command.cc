#include "trainer/commands/import_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/base/made_folders.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/model_description.h"
#include "trainer/checkpoint/run_saver.h"
#include "trainer/checkpoint/vocabulary_file.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/print_text.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/job/job_config.h"
#include "trainer/job/output_folders.h"
#include "trainer/launch/shell_word.h"
#include "trainer/model/build_graph.h"
#include "trainer/onnx/import_model.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

struct ImportFlags {
  std::string file;
  std::string job;
  std::string output;
  std::vector<std::string> overrides;
};

// Of a model that reads text: the ids of its tokens are those of the job's data. Writes the
// vocabulary beside the checkpoints. "": the model reads none.
absl::StatusOr<std::string> VocabularyOf(const TrainingConfig& config, const std::string& checkpoints) {
  if (config.model.vocabulary == 0) return "";
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(config.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, OpenDataset(config.data, Split::kTrain, expected, config.seed));
  if (data->info().vocabulary == nullptr) return "";
  TY_RETURN_IF_ERROR(KeepVocabulary(checkpoints, *data->info().vocabulary, /*has_checkpoints=*/false));
  return data->info().vocabulary->Sha256Hex();
}

// The checkpoint of step 0 of a run that starts with `parameters`.
absl::StatusOr<std::string> SaveStart(const TrainingConfig& config, CheckpointStore store, const ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const std::string vocabulary, VocabularyOf(config, store.dir()));
  TY_ASSIGN_OR_RETURN(const ModelDescription described, DescribeModel(config, vocabulary));
  CheckpointInfo info{.step = 0,
                      .position = {},
                      .seed = config.seed,
                      .fingerprint = parameters.Fingerprint(),
                      .model = config.model.name,
                      .strategy = StrategyText(config.strategy),
                      .state = {},
                      .description = {}};
  TY_ASSIGN_OR_RETURN(info.description, DescriptionJson(described));
  if (!vocabulary.empty()) info.state[kVocabularyState] = vocabulary;
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer, MakeOptimizer(config.optimizer));
  std::vector<CheckpointShard> shards = {{.name = "parameters", .tensors = {}}};
  AppendTensors(parameters, "", shards[0].tensors);
  const ParameterSet zeros({parameters.specs().begin(), parameters.specs().end()});  // slots before the first step
  if (!optimizer->slot_names().empty()) shards.push_back({.name = "optimizer", .tensors = {}});
  for (const std::string& slot : optimizer->slot_names()) AppendTensors(zeros, slot, shards[1].tensors);
  return store.Save(info, shards);
}

absl::StatusOr<std::string> Imported(const ImportFlags& flags) {
  TY_ASSIGN_OR_RETURN(const TrainingConfig config, ReadTrainingFile(flags.job, flags.overrides));
  CheckpointStore store(CheckpointFolder(flags.output, config), config.checkpoint.keep);
  TY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, store.Steps());
  if (!steps.empty()) {
    return absl::AlreadyExistsError(fmt::format(
        "'{}' has the checkpoint of step {} already, from which a training would go on; choose another --output", store.dir(), steps[0]));
  }
  TY_ASSIGN_OR_RETURN(std::vector<ParameterSpec> specs, ParameterSpecsOf(config.model));
  ParameterSet parameters(std::move(specs));
  TY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(flags.file, MostOnnxBytes(parameters.elements())));
  TY_RETURN_IF_ERROR(ImportOnnx(bytes, flags.file, config.model, parameters));
  TY_ASSIGN_OR_RETURN(const MadeFolders folders, MadeFolders::Make(store.dir()));
  TY_ASSIGN_OR_RETURN(const std::string path, SaveStart(config, std::move(store), parameters));
  return fmt::format("{}: {} tensors, {} numbers, of {}\n  trainyard-trainer launch {} --output {}{}   # goes on from it\n", path,
                     parameters.size(), parameters.elements(), flags.file, ShellWord(flags.job), ShellWord(flags.output),
                     SetArguments(flags.overrides));
}

}  // namespace

void AddImportCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "make a checkpoint of an ONNX file's weights, from which a training goes on");
  command->add_option("FILE", flags->file, "ONNX file of a network with the layers of the job's model")->type_name("FILE")->required();
  command->add_option("--job", flags->job, "job file of the training")->type_name("FILE")->required();
  command->add_option("--output", flags->output, "output folder of the training; without checkpoints so far")->type_name("DIR")->required();
  AddSetOption(*command, flags->overrides);
  command->footer("trainyard-trainer import lenet5.onnx --job examples/lenet5-local.yaml --output out/tuned");
  command->callback([flags, &exit_code] { exit_code = PrintText(Imported(*flags)); });
}

}  // namespace trainyard::engine
