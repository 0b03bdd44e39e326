// A model's parameters under the names and in the layouts that PyTorch's modules have
// (docs/predict.md has the table):
//   conv2d               <layer>.weight [out, in, height, width], .bias
//   dense                <layer>.weight [out, in], .bias. Behind a flatten of an image the inputs are in PyTorch's order: channel, row, column
//   batchNormalization   <layer>.weight, .bias, .running_mean, .running_var; behind a flatten in that order too
//   embedding            <layer>.weight [tokens, features]
//   lstm, gru, simpleRnn <layer>.weight_ih_l0, .weight_hh_l0, .bias_ih_l0, .bias_hh_l0; gates i, f, g, o and r, z, n. bias_hh_l0 is zeros but
//                        for a gru, whose two biases both count
//   bidirectional        the same, and with _reverse behind them those of the copy that goes backwards
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/model/model_spec.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct TorchTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;  // row-major
};

// `parameters` are those of `spec`. In key order; every parameter is in exactly one tensor.
absl::StatusOr<std::vector<TorchTensor>> TorchTensorsOf(const ModelSpec& spec, const ParameterSet& parameters);

}  // namespace trainyard::engine
