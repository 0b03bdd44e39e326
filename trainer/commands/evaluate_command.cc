#include "trainer/commands/evaluate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/cli/command_info.h"
#include "trainer/commands/make_backend.h"
#include "trainer/commands/print_text.h"
#include "trainer/predict/evaluate_model.h"

namespace trainyard::engine {
namespace {

struct EvaluateFlags {
  TrainedModelOptions model;
  std::string data;  // "": the job's folder
  std::string backend = "cpu";
  bool json = false;
};

absl::StatusOr<std::string> Evaluated(EvaluateFlags flags) {
  // JSON's strings are YAML's.
  if (!flags.data.empty()) flags.model.overrides.push_back("training.data.dir=" + nlohmann::json(flags.data).dump());
  TY_ASSIGN_OR_RETURN(const TrainedModel model, LoadTrainedModel(flags.model));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeBackend(flags.backend, /*threads=*/0));
  TY_ASSIGN_OR_RETURN(const ModelEvaluation evaluation, EvaluateModel(model, *backend));
  return flags.json ? EvaluationJson(model, evaluation) : EvaluationText(model, evaluation);
}

}  // namespace

void AddEvaluateCommand(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EvaluateFlags>();
  CLI::App* command = app.add_subcommand("evaluate", "loss, accuracy and the mistakes of a checkpoint on a data set");
  command->add_option("CHECKPOINT", flags->model.path, "a run's output folder, its folder of checkpoints, or one checkpoint")
      ->type_name("DIR")
      ->required();
  command->add_flag("--best", flags->model.best, "the run's best checkpoint in place of the newest");
  command->add_option("--data", flags->data, "the folder of the data, in place of the job's data.dir")->type_name("DIR");
  command->add_option("--job", flags->model.job, "a job file whose data.eval is taken, in place of what the checkpoint says")
      ->type_name("FILE");
  command->add_option("--set", flags->model.overrides, "change a field of that job before anything is checked: path=value")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command->add_flag("--json", flags->json, "one JSON object, with the whole confusion matrix");
  OneOf(command->add_option("--backend", flags->backend, "kernels"), {"cpu", "reference"})->capture_default_str();
  command->footer(
      "trainyard-trainer evaluate runs/lenet5-local/DATE\n"
      "trainyard-trainer evaluate out --best --json\n"
      "trainyard-trainer evaluate out --set 'training.data.eval.range=[0, 9000]'");
  command->callback([flags, &exit_code] { exit_code = PrintText(Evaluated(*flags)); });
}

}  // namespace trainyard::engine
