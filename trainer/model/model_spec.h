// What a job says of its network (`spec.training.model`), checked and with presets expanded: an input, a list of layers and a loss. Plain
// data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "trainer/graph/op.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// `activation:` of a layer. Softmax is an op of its own in the graph; the others are graph Activations.
enum class LayerActivation : uint8_t { kLinear, kTanh, kRelu, kSigmoid, kSoftmax };
enum class Loss : uint8_t { kSoftmaxCrossEntropy, kMeanSquaredError };
// How a parameter starts; fan-in and fan-out come from its shape. Formulas and sources in initializer.h.
enum class Initializer : uint8_t { kZeros, kOnes, kGlorotUniform, kGlorotNormal, kHeUniform, kHeNormal };

// Layer kinds, with Keras' words and Keras' defaults.
struct WeightsSpec {
  bool use_bias = true;
  Initializer kernel_initializer = Initializer::kGlorotUniform;
  Initializer bias_initializer = Initializer::kZeros;
  double kernel_l2 = 0;  // kernelRegularizer: l2 * the sum of the kernel's squares is part of the loss; 0: none
};
struct Conv2dLayer {
  int64_t filters = 1;
  Window window;
  LayerActivation activation = LayerActivation::kLinear;
  WeightsSpec weights;
};
struct DenseLayer {
  int64_t units = 1;
  LayerActivation activation = LayerActivation::kLinear;
  WeightsSpec weights;
};
struct MaxPool2dLayer {
  Window window;  // strides default to the pool size
};
struct AvgPool2dLayer {
  Window window;
};
struct GlobalAveragePool2dLayer {};
// Over all axes but the last. gamma starts with ones, beta and the moving mean with zeros, the moving variance with ones.
struct BatchNormalizationLayer {
  double momentum = 0.99;
  double epsilon = 1e-3;
};
struct FlattenLayer {};
struct ReshapeLayer {
  std::vector<int64_t> target_shape;  // without the batch; one extent may be -1: what is left over
};
struct AddLayer {};  // two or more inputs of one shape
struct ActivationLayer {
  LayerActivation function = LayerActivation::kLinear;
};
struct DropoutLayer {
  double rate = 0.5;  // in [0, 1)
};

using LayerKind = std::variant<Conv2dLayer, MaxPool2dLayer, AvgPool2dLayer, GlobalAveragePool2dLayer, BatchNormalizationLayer, DenseLayer,
                               FlattenLayer, ReshapeLayer, AddLayer, ActivationLayer, DropoutLayer>;

struct LayerSpec {
  std::string name;  // unique; its parameters are "<name>/kernel", "<name>/bias"; or gamma, beta, moving_mean, moving_variance
  std::vector<std::string> inputs;  // names of earlier layers, or kInputName; never empty: without `inputs:` it is the layer before
  LayerKind kind;
  std::string path;  // where it stands in the job file, for errors: "spec.training.model.layers[2].conv2d"; of a preset, the model's path
};

inline constexpr char kInputName[] = "input";

struct ModelSpec {
  std::string name = "custom";    // or the preset's name
  std::string path = "model";     // where it stands in the job file, for errors
  Shape input_shape;              // of one example, without the batch: [28, 28, 1]
  std::vector<LayerSpec> layers;  // every layer's inputs come before it; the last one is the output
  Loss loss = Loss::kSoftmaxCrossEntropy;
};

}  // namespace trainyard::engine
