// evaluation.json: confusion matrix and surest mistakes of a training's result, for the run's page.
//
//   step, examples
//   classes    names
//   confusion  [i][j]: how many examples of class i were taken for class j
//   samples    [{"image": PNG in base64, "label", "predicted": names, "probability"}]
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/model/confusion_matrix.h"
#include "trainer/picture/image.h"

namespace trainyard::engine {

// A picture that the model took for another class than its own.
struct Mistake {
  Image image;
  int label = 0;
  int predicted = 0;
  double probability = 0;  // that the model gave the predicted class
};

struct EvaluationRecord {
  int64_t step = 0;
  std::vector<std::string> classes;  // names, as many as the matrix has classes
  const ConfusionMatrix& matrix;     // with cells
  const std::vector<Mistake>& mistakes;
};

std::string EvaluationRecordJson(const EvaluationRecord& record);
// Replaces <dir>/evaluation.json.
absl::Status WriteEvaluationRecord(const std::string& dir, const EvaluationRecord& record);

}  // namespace trainyard::engine
