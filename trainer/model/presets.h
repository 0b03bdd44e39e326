// Networks that a job may ask for by name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/field_reader.h"

namespace trainyard::engine {

// In the order of the documentation.
std::vector<std::string> PresetNames();

// The preset `name` written out as a model of the job file, {input, layers, loss}, with its options
// read from `options`:
//   linear    inputs (10), outputs (1): one dense layer, meanSquaredError
//   lenet5    inputShape ([28, 28, 1]), classes (10): conv 20@5x5, max-pool, tanh, conv 50@5x5, max-pool, tanh, dense 500 tanh, dense;
//             the variant of the parameter-server scaling study
//   mnistCnn  inputShape ([28, 28, 1]), classes (10): conv 32@3x3 relu, conv 64@3x3 relu, max-pool, dropout 0.25, dense 128 relu,
//             dropout 0.5, dense
//   ptbLstm   vocabulary (10000), embedding (200), units (200), numLayers (2), steps (30), dropout (0): embedding, stateful LSTM
//             layers, a dense layer that scores the next word at each step
//   resnet56v2  classes (10), l2 (1e-4): residual network for 32x32 images (He et al. 2016), 56 layers of pre-activated bottleneck
//             blocks, as in Keras' example cifar10_resnet
// `name` must be one of PresetNames().
nlohmann::json ExpandPreset(std::string_view name, FieldReader& options);

}  // namespace trainyard::engine
