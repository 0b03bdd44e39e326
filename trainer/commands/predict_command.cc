#include "trainer/commands/predict_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/cli/palette.h"
#include "trainer/cli/print.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/make_backend.h"
#include "trainer/predict/folder_files.h"
#include "trainer/predict/load_text.h"
#include "trainer/predict/predict_files.h"
#include "trainer/predict/prediction_text.h"

namespace trainyard::engine {
namespace {

struct PredictFlags {
  TrainedModelOptions model;
  PredictFilesOptions files;
  std::string backend = "cpu";
  int top = 1;
  bool json = false;
};

void PrintLine(const std::string& line) { Print(line + "\n"); }

// The number of files and examples that have no prediction.
absl::StatusOr<int64_t> Predicted(PredictFlags flags) {
  flags.files.files = FilesOfFolders(flags.files.files);
  TY_ASSIGN_OR_RETURN(TrainedModel model, LoadTrainedModel(flags.model));
  TY_RETURN_IF_ERROR(LoadText(model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(flags.backend, /*threads=*/0));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Predictor> predictor, Predictor::Create(model, *backend));
  const std::vector<std::string>& classes = model.description.classes;
  const PredictionTable table(flags.files.files, classes, flags.top);
  bool begun = flags.json;  // JSON lines have no header
  int64_t failed = 0;
  const PredictListener listener{.predicted =
                                     [&](const Prediction& prediction) {
                                       if (!begun) PrintLine(table.Header());
                                       begun = true;
                                       PrintLine(flags.json ? PredictionJson(prediction, classes, flags.top) : table.Row(prediction));
                                     },
                                 .failed =
                                     [&](const std::string& file, const absl::Status& error) {
                                       ++failed;
                                       if (flags.json) PrintLine(FailureJson(file, error));
                                       PrintError(std::string(error.message()));
                                     }};
  TY_RETURN_IF_ERROR(PredictFiles(*predictor, flags.files, std::cin, listener));
  return failed;
}

int Predict(const PredictFlags& flags) {
  const absl::StatusOr<int64_t> failed = Predicted(flags);
  if (!failed.ok()) PrintError(std::string(failed.status().message()));
  return failed.ok() && *failed == 0 ? 0 : 1;
}

}  // namespace

void AddPredictCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<PredictFlags>();
  CLI::App* command = app.add_subcommand("predict", "print the classes or numbers that a checkpoint predicts for examples");
  AddModelOptions(*command, flags->model, "job file of the training, for a checkpoint that an older version wrote");
  command
      ->add_option("FILE", flags->files.files,
                   "PNG or JPEG pictures, or a folder of them; .npy or IDX arrays of one example or a batch; JSON lines in .jsonl files; "
                   "for a model of CSV rows, CSV files; for a model of text, files with a text on each line; - for lines from standard "
                   "input")
      ->type_name("FILE")
      ->required();
  InRange(command->add_option("--top", flags->top, "number of likeliest classes to print for each example"), 1, 1000)
      ->capture_default_str();
  command->add_flag("--resize", flags->files.resize, "scale pictures to the model's size");
  command->add_flag("--json", flags->json, "print one JSON object a line");
  AddBackendOption(*command, flags->backend);
  command->footer(
      "trainyard-trainer predict runs/lenet5-local/DATE digit.png\n"
      "trainyard-trainer predict out *.png --top 3 --json\n"
      "echo '[0.1, 0.5, 2.5]' | trainyard-trainer predict out -\n"
      "echo 'the price of' | trainyard-trainer predict out/words - --top 5");
  command->callback([flags, &exit_code] { exit_code = Predict(*flags); });
}

}  // namespace trainyard::engine
