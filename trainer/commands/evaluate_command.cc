#include "trainer/commands/evaluate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/commands/add_options.h"
#include "trainer/commands/make_backend.h"
#include "trainer/commands/print_text.h"
#include "trainer/predict/evaluate_model.h"

namespace trainyard::engine {
namespace {

struct EvaluateFlags {
  TrainedModelOptions model;
  std::string backend = "cpu";
  bool json = false;
};

absl::StatusOr<std::string> Evaluated(const EvaluateFlags& flags) {
  TY_ASSIGN_OR_RETURN(const TrainedModel model, LoadTrainedModel(flags.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(flags.backend, /*threads=*/0));
  TY_ASSIGN_OR_RETURN(const ModelEvaluation evaluation, EvaluateModel(model, *backend));
  return flags.json ? EvaluationJson(model, evaluation) : EvaluationText(model, evaluation);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command = app.add_subcommand("evaluate", "print loss, accuracy and mistakes of a checkpoint on a data set");
  AddModelOptions(*command, flags->model, "a job file whose data.eval is used in place of the checkpoint's");
  command
      ->add_option("--data", flags->model.data,
                   "folder of the data, in place of the job's data.dir, or its file; another one is evaluated whole")
      ->type_name("PATH");
  AddSetOption(*command, flags->model.overrides);
  command->add_flag("--json", flags->json, "print one JSON object, with the whole confusion matrix");
  AddBackendOption(*command, flags->backend);
  command->footer(
      "trainyard-trainer evaluate runs/lenet5-local/DATE\n"
      "trainyard-trainer evaluate out --best --json\n"
      "trainyard-trainer evaluate out --set 'training.data.eval.range=[0, 9000]'");
  command->callback([flags, &exit_code] { exit_code = PrintText(Evaluated(*flags)); });
}

}  // namespace trainyard::engine
