// A model with its parameters as an ONNX file that other programs run (docs/predict.md).
//
// IR version 8, opset 17. Inputs: "input", [batch, ..] in the shape of the job file, f32, or u8
// with the transforms of bytes, or i64 tokens; and a stateful layer's states, "lstm/h" [batch,
// units]. Outputs: "probabilities" and "logits", or "prediction"; and the next state of each state,
// "lstm/h_next". The extent of the batch is free. So is that of a sequence's steps, where no layer
// needs their number.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/csv_config.h"
#include "trainer/model/model_spec.h"
#include "trainer/onnx/input_transforms.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

struct OnnxExportOptions {
  std::optional<InputTransforms> transforms;    // absent: the graph takes what the model sees
  std::optional<LabelScale> label_scale;        // of a model that gives numbers: the graph gives them in the label's unit
  std::map<std::string, std::string> metadata;  // of the file
};

// The file's bytes. `parameters` are those of `spec`. InvalidArgument: transforms for a model that
// reads text, or a file of 2 GiB or more, which protobuf cannot hold.
absl::StatusOr<std::string> OnnxModelOf(const ModelSpec& spec, const ParameterSet& parameters, const OnnxExportOptions& options = {});

}  // namespace trainyard::engine
