// What a job says of its network (`spec.training.model`), checked and with presets expanded: a list of layers, an input and a loss. Plain
// data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "trainer/tensor/shape.h"

namespace trainyard::engine {

enum class Activation : uint8_t { kLinear, kTanh, kRelu, kSigmoid, kSoftmax };
enum class Padding : uint8_t { kValid, kSame };
enum class Loss : uint8_t { kSoftmaxCrossEntropy, kMeanSquaredError };
// How a parameter starts; fan-in and fan-out come from its shape. Formulas and sources in initializer.h.
enum class Initializer : uint8_t { kZeros, kOnes, kGlorotUniform, kGlorotNormal, kHeUniform, kHeNormal };

// Layer kinds, with Keras' words and Keras' defaults. Sizes are pairs of height and width.
struct Size2d {
  int64_t height = 1;
  int64_t width = 1;
  friend bool operator==(const Size2d&, const Size2d&) = default;
};
struct Conv2dLayer {
  int64_t filters = 1;
  Size2d kernel_size;
  Size2d strides;
  Padding padding = Padding::kValid;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = Initializer::kGlorotUniform;
  Initializer bias_initializer = Initializer::kZeros;
};
struct Pool2dLayer {
  enum class Kind : uint8_t { kMax, kAverage };
  Kind kind = Kind::kMax;
  Size2d pool_size{2, 2};
  Size2d strides{2, 2};  // defaults to pool_size
  Padding padding = Padding::kValid;
};
struct DenseLayer {
  int64_t units = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = Initializer::kGlorotUniform;
  Initializer bias_initializer = Initializer::kZeros;
};
struct FlattenLayer {};
struct ReshapeLayer {
  Shape target_shape;  // without the batch; one extent may be -1
};
struct AddLayer {};  // two or more inputs of one shape
struct ActivationLayer {
  Activation function = Activation::kLinear;
};
struct DropoutLayer {
  double rate = 0.5;  // in [0, 1)
};

using LayerKind = std::variant<Conv2dLayer, Pool2dLayer, DenseLayer, FlattenLayer, ReshapeLayer, AddLayer, ActivationLayer, DropoutLayer>;

struct LayerSpec {
  std::string name;                 // unique; its parameters are "<name>/kernel", "<name>/bias"
  std::vector<std::string> inputs;  // names of earlier layers, or kInputName; never empty: without `inputs:` it is the layer before
  LayerKind kind;
  std::string path;  // where it stands in the job file, for errors: "spec.training.model.layers[2]"; a preset's layers name the preset
};

inline constexpr char kInputName[] = "input";

struct ModelSpec {
  std::string name;               // the preset's name, or "custom"
  Shape input_shape;              // one example, without the batch: [28, 28, 1]
  std::vector<LayerSpec> layers;  // in an order in which every input comes before its use; the last one is the output
  Loss loss = Loss::kSoftmaxCrossEntropy;
};

}  // namespace trainyard::engine
