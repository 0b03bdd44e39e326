// A checkpoint, ready to be used: its description and its parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/model_description.h"
#include "trainer/data/text/vocabulary.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

struct TrainedModelOptions {
  std::string path;                    // as FindCheckpoint takes it
  bool best = false;                   // the best checkpoint in place of the newest
  std::string job;                     // a job file in place of the checkpoint's model.json; "": none
  std::vector<std::string> overrides;  // --set, of the job file or of what model.json holds of one
  std::string data = {};               // a folder of data in place of data.dir, or a file; "": the job's
};

struct TrainedModel {
  std::string checkpoint;  // its folder
  int64_t step = 0;
  ModelDescription description;
  ParameterSet parameters;
  // Of a model that reads text, by LoadText:
  std::shared_ptr<const Vocabulary> vocabulary = nullptr;
  ParameterSet first_row = {};  // the state of its recurrent layers, [1, units] each, that a text begins with
};

// Where options.data is another folder than the training's, data.eval is EvaluatedWhole, and of a
// file EvaluatedFile, unless an override says what it is. A log line says so.
// FailedPrecondition: the checkpoint has no model.json and there is no job file, or the job's model
// is not the checkpoint's. Errors name the checkpoint, or the file and its fields.
absl::StatusOr<TrainedModel> LoadTrainedModel(const TrainedModelOptions& options);

}  // namespace trainyard::engine
