// The weights of an ONNX file as the parameters of a job's model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "trainer/model/model_spec.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// The bytes that a file of a model with `elements` weights has at most, with its nodes and notes.
int64_t MostOnnxBytes(int64_t elements);

// Fills `parameters`, those of `spec`. The file's layers with weights, in the order of its nodes,
// must be those of the model in the order of the job file: of the same kinds, with the same shapes.
// A batch normalisation's epsilon, a recurrent layer's direction and the order in which an image
// was flattened count too. Activations, windows and connections are not compared.
//
// `name` is what errors call the bytes, which are hostile until they are read. DataLoss: they are
// no ONNX file. InvalidArgument names all tensors and layers that do not fit; the parameters are
// then as they were.
absl::Status ImportOnnx(std::string_view bytes, const std::string& name, const ModelSpec& spec, ParameterSet& parameters);

}  // namespace trainyard::engine
