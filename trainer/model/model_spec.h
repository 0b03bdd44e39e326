// A job's network (`spec.training.model`), checked and with presets expanded: an input, a list of
// layers and a loss. A value: copies share the layers, which never change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/model/layers/layer.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

enum class Loss : uint8_t { kSoftmaxCrossEntropy, kMeanSquaredError };

struct LayerSpec {
  std::string name;  // unique; its parameters are "<name>/kernel", "<name>/bias"; or gamma, beta, moving_mean, moving_variance; embeddings;
                     // recurrent_kernel
  std::vector<std::string> inputs;  // names of earlier layers, or kInputName; never empty: without `inputs:` it is the layer before
  LayerPointer layer;
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
