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
enum class Initializer : uint8_t { kZeros, kOnes, kGlorotUniform, kGlorotNormal, kHeUniform, kHeNormal, kUniform, kOrthogonal };

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
// Takes tokens.
struct EmbeddingLayer {
  int64_t input_dim = 0;  // rows of the table; 0: the input's vocabulary
  int64_t output_dim = 1;
  Initializer initializer = Initializer::kUniform;
};
// An LSTM, GRU or simple RNN over [steps, features]; formulas in ops/recurrent.h.
struct RecurrentLayer {
  Cell cell = Cell::kLstm;
  int64_t units = 1;
  LayerActivation activation = LayerActivation::kTanh;  // simple RNN only
  bool return_sequences = false;                        // [steps, units], otherwise the last step's [units]
  bool stateful = false;                                // starts where the batch before ended, otherwise with zeros
  bool go_backwards = false;                            // from the last step to the first
  bool unit_forget_bias = true;                         // LSTM: the forget gate's bias starts with 1
  WeightsSpec weights;
  Initializer recurrent_initializer = Initializer::kOrthogonal;
};
// A layer and a copy of it that goes backwards, with parameters of their own below "forward" and "backward".
struct BidirectionalLayer {
  enum class Merge : uint8_t { kConcat, kSum };
  RecurrentLayer layer;
  Merge merge = Merge::kConcat;
};

using LayerKind =
    std::variant<Conv2dLayer, MaxPool2dLayer, AvgPool2dLayer, GlobalAveragePool2dLayer, BatchNormalizationLayer, DenseLayer, FlattenLayer,
                 ReshapeLayer, AddLayer, ActivationLayer, DropoutLayer, EmbeddingLayer, RecurrentLayer, BidirectionalLayer>;

struct LayerSpec {
  std::string name;  // unique; its parameters are "<name>/kernel", "<name>/bias"; or gamma, beta, moving_mean, moving_variance; embeddings;
                     // recurrent_kernel
  std::vector<std::string> inputs;  // names of earlier layers, or kInputName; never empty: without `inputs:` it is the layer before
  LayerKind kind;
  std::string path;  // where it stands in the job file, for errors: "spec.training.model.layers[2].conv2d"; of a preset, the model's path
};

inline constexpr char kInputName[] = "input";

struct ModelSpec {
  std::string name = "custom";    // or the preset's name
  std::string path = "model";     // where it stands in the job file, for errors
  Shape input_shape;              // of one example, without the batch: [28, 28, 1]; of tokens [steps]
  int64_t vocabulary = 0;         // above 0: the input is tokens, whole numbers below it
  std::vector<LayerSpec> layers;  // every layer's inputs come before it; the last one is the output
  Loss loss = Loss::kSoftmaxCrossEntropy;
};

}  // namespace trainyard::engine
