// <checkpoint>/model.json: all that a program needs to use a checkpoint, beside the parameters. All
// of the format is on this page.
//
// {"format": "trainyard-model", "version": 1,
//  "trainer": "0.1.0",                            the version that wrote it
//  "training": {"model", "data", "batchSize", "seed"},  of spec.training, as the job says them
//  "input": {"shape": [28, 28, 1]},               of one example; with "vocabulary": 10000 it is tokens below that
//                                                 of pictures with "fit": "crop" or "stretch", as `data.fit` of the job
//  "output": {"classes": 10} or {"shape": [1]},   {"classes", "shape": [30]}: a class for each step
//  "transforms": [{"map": {"normalize": {"mean": [0.13]}}}],  as stages of spec.training.data.pipeline, in order; bytes are divided by 255
//                                                 before the first one, unless it has a scale
//  "classes": ["0", …],                           names by number; absent where an example has no class of its own
//  "columns": [{"name": "age", "type": "number", "mean": 38.6, "std": 13.6, "missing": "38.6"},     of csv, in the order of the inputs;
//              {"name": "sex", "type": "category", "categories": ["f", "m"]}],  csv_config.h has their meaning
//  "label": {"mean": 183000.0, "std": 79000.0},   of csv with standardizeLabel: the model gives (y - mean) / std
//  "vocabulary": {"file": "vocabulary.json", "sha256"}}   of text; the file is in the checkpoint's folder or beside it
//
// Readers ignore fields that they do not know; a change of meaning is another version.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/data/pipeline_config.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

struct ModelDescription {
  TrainingConfig training;           // model, data, batch_size and seed only
  PipelineConfig transforms;         // map stages that normalize, and nothing else
  std::vector<std::string> classes;  // as many as the model has; empty: an example has no class of its own
  std::string vocabulary_sha256;     // "": the model reads no text
  std::string trainer;
};

// Of a job. `vocabulary_sha256` as RunSaverOptions has it. NotFound, InvalidArgument: a file of
// class names that cannot be read.
absl::StatusOr<ModelDescription> DescribeModel(const TrainingConfig& config, std::string vocabulary_sha256);

// model.json. InvalidArgument names the model's layer whose shapes do not fit.
absl::StatusOr<std::string> DescriptionJson(const ModelDescription& description);

// `name` is what errors call the text, which is hostile until it is read. Overrides are those of
// ReadJobFile, on its "training". DataLoss: it is not a description, or of another version.
// InvalidArgument names all wrong fields.
absl::StatusOr<ModelDescription> ParseDescription(std::string_view text, const std::string& name,
                                                  std::span<const std::string> overrides = {});

}  // namespace trainyard::engine
