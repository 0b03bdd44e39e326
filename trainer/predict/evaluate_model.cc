#include "trainer/predict/evaluate_model.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/open/open_dataset.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/train/evaluation_watch.h"
#include "trainer/train/model_runner.h"
#include "trainer/train/prediction_watch.h"

namespace trainyard::engine {
namespace {

absl::Status CheckVocabulary(const TrainedModel& model, const DatasetInfo& data) {
  const std::string found = data.vocabulary != nullptr ? data.vocabulary->Sha256Hex() : "";
  const std::string& trained = model.description.vocabulary_sha256;
  if (found == trained) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "checkpoint {} was trained with another vocabulary (SHA-256 {:.16}) than the text of data.train gives now (SHA-256 {:.16}); name the "
      "text of the training",
      model.checkpoint, trained, found));
}

}  // namespace

absl::StatusOr<ModelEvaluation> EvaluateModel(const TrainedModel& model, Backend& backend) {
  const TrainingConfig& training = model.description.training;
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(training.model));
  if (!training.data.eval) {
    return absl::NotFoundError(fmt::format(
        "the training of checkpoint {} had no data.eval; name what to evaluate on by --job FILE, or by --set training.data.eval=…",
        model.checkpoint));
  }
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, OpenDataset(training.data, Split::kEval, expected, training.seed));
  TY_RETURN_IF_ERROR(CheckVocabulary(model, data->info()));

  ModelEvaluation evaluation{.score = {}, .matrix = std::nullopt, .numbers = std::nullopt, .data = data->info().name};
  std::optional<PredictionWatch> watch = PredictionWatch::For(expected);
  std::optional<NumberErrors> errors = NumberErrors::For(expected, training.data.label_scale);
  const ModelRunner::BatchSeen seen = watch ? watch->Seen() : errors ? errors->Seen() : nullptr;
  ModelRunner runner(training.model, backend);
  const auto told = [](const std::string& text) {
    if (!text.empty()) LogInfo("{}", text);
  };
  TY_ASSIGN_OR_RETURN(const int64_t examples, ModelRunner::EvaluatedExamples(data->info(), training.batch_size));
  EvaluationWatch lasting({.who = "trainyard-trainer", .examples = examples, .stop = {}, .told = told}, RealClock());
  TY_ASSIGN_OR_RETURN(evaluation.score, runner.Evaluate(*data, training.batch_size, model.parameters, lasting.Seen(seen)));
  if (watch) evaluation.matrix = watch->matrix();
  if (errors) evaluation.numbers = errors->Score();
  return evaluation;
}

}  // namespace trainyard::engine
