// Evaluates a trained model on a data set: its loss, its accuracy, and its mistakes by class.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/model/confusion_matrix.h"
#include "trainer/model/metrics.h"
#include "trainer/predict/number_errors.h"
#include "trainer/predict/trained_model.h"

namespace trainyard::engine {

struct ModelEvaluation {
  ModelScore score;                       // as the run's own evaluation gives it, to the bit
  std::optional<ConfusionMatrix> matrix;  // of examples with one class each
  std::optional<NumberScore> numbers;     // of a model that gives numbers
  std::string data;                       // the data set's name
};

// On the evaluation split of the description's data. NotFound: it has none; FailedPrecondition: it
// is a text with another vocabulary than the training's; else errors name file, field or record.
absl::StatusOr<ModelEvaluation> EvaluateModel(const TrainedModel& model, Backend& backend);

// Accuracy or perplexity and loss, or loss and errors in the label's unit; a line for each class;
// the matrix where it fits on a page, else the most frequent mistakes.
std::string EvaluationText(const TrainedModel& model, const ModelEvaluation& evaluation);
// One object: docs/predict.md has its fields.
std::string EvaluationJson(const TrainedModel& model, const ModelEvaluation& evaluation);

}  // namespace trainyard::engine
