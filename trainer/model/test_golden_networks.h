// Start values, batches and losses of the networks that PyTorch has trained:
// tests/golden/make_network_golden.py describes them, and the content of networks.json.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "trainer/backend/executor.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_spec.h"
#include "trainer/optim/make_optimizer.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

inline nlohmann::json GoldenNetwork(const std::string& name) {
  return nlohmann::json::parse(std::ifstream("tests/golden/networks.json")).at("networks").at(name);
}

inline uint32_t Mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  return x ^ x >> 16;
}

inline double Unit(uint32_t stream, uint32_t i) { return (Mix(Mix(stream) ^ i) >> 16) / 65536.0; }

inline uint32_t Fnv1a(const std::string& text) {
  uint32_t value = 0x811C9DC5u;
  for (const char c : text) value = (value ^ static_cast<uint8_t>(c)) * 0x01000193u;
  return value;
}

inline void SetStartValues(ParameterSet& parameters) {
  for (int key = 0; key < parameters.size(); ++key) {
    const ParameterSpec& spec = parameters.spec(key);
    const std::span<float> values = parameters.values(key);
    if (spec.shape.rank() == 1) {
      std::ranges::fill(values, spec.name.ends_with("/gamma") || spec.name.ends_with("/moving_variance") ? 1.0f : 0.0f);
      continue;
    }
    const double limit = std::sqrt(3.0 / (static_cast<double>(spec.shape.elements()) / static_cast<double>(spec.shape[-1])));
    const uint32_t stream = Fnv1a(spec.name);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((2 * Unit(stream, static_cast<uint32_t>(i)) - 1) * limit);
    }
  }
}

// The batches of a network, one after another; a step's feeds hold until the next.
class Batches {
 public:
  virtual ~Batches() = default;
  virtual std::array<Feed, 2> Make(int64_t step) = 0;
};

class ImageBatches final : public Batches {
 public:
  // `shape` with the batch.
  explicit ImageBatches(const Shape& shape)
      : shape_(shape), images_(static_cast<size_t>(shape.elements())), labels_(static_cast<size_t>(shape[0])) {}

  std::array<Feed, 2> Make(int64_t step) override {
    const size_t elements = images_.size() / labels_.size();
    for (size_t n = 0; n < labels_.size(); ++n) {
      const auto example = static_cast<uint32_t>(step * static_cast<int64_t>(labels_.size()) + static_cast<int64_t>(n));
      labels_[n] = static_cast<int32_t>(Mix(example) % 10);
      for (size_t i = 0; i < elements; ++i) {
        const auto at = static_cast<uint32_t>(i);
        images_[n * elements + i] = static_cast<float>((Unit(1000 + static_cast<uint32_t>(labels_[n]), at) + Unit(2000 + example, at)) / 2);
      }
    }
    return {Feed{.name = kInputName, .tensor = {DType::kF32, shape_, images_.data()}},
            Feed{.name = kLabelsFeed, .tensor = {DType::kI32, Shape({static_cast<int64_t>(labels_.size())}), labels_.data()}}};
  }

 private:
  Shape shape_;
  std::vector<float> images_;
  std::vector<int32_t> labels_;
};

// Every row goes on where it ended in the step before.
class TextBatches final : public Batches {
 public:
  // `shape` is [batch, steps].
  TextBatches(const Shape& shape, int64_t vocabulary)
      : shape_(shape),
        vocabulary_(vocabulary),
        words_(static_cast<size_t>(shape.elements())),
        next_words_(static_cast<size_t>(shape.elements())) {}

  std::array<Feed, 2> Make(int64_t step) override {
    const auto row_words = static_cast<size_t>(shape_[1]);
    for (size_t i = 0; i < words_.size(); ++i) {
      const auto row = static_cast<uint32_t>(i / row_words);
      const auto place = static_cast<uint32_t>(static_cast<size_t>(step) * row_words + i % row_words);
      words_[i] = WordAt(row, place);
      next_words_[i] = WordAt(row, place + 1);
    }
    return {Feed{.name = kInputName, .tensor = {DType::kI32, shape_, words_.data()}},
            Feed{.name = kLabelsFeed, .tensor = {DType::kI32, shape_, next_words_.data()}}};
  }

 private:
  int32_t WordAt(uint32_t row, uint32_t place) const {
    const double noise = 8 * Unit(4000 + row, place);
    return static_cast<int32_t>(static_cast<double>(vocabulary_) * (noise < 1 ? noise : Unit(3000, (place + row) % 11)));
  }

  Shape shape_;
  int64_t vocabulary_;
  std::vector<int32_t> words_;
  std::vector<int32_t> next_words_;
};

inline std::unique_ptr<Batches> MakeBatches(const ModelSpec& spec, int64_t batch) {
  std::vector<int64_t> extents{batch};
  extents.insert(extents.end(), spec.input_shape.extents().begin(), spec.input_shape.extents().end());
  if (spec.vocabulary > 0) return std::make_unique<TextBatches>(Shape(extents), spec.vocabulary);
  return std::make_unique<ImageBatches>(Shape(extents));
}

inline OptimizerConfig OptimizerOf(const nlohmann::json& golden) {
  OptimizerConfig config = DefaultOptimizerConfig(golden.at("name").get<std::string>());
  config.learning_rate = golden.at("learningRate").get<double>();
  config.clip_norm = golden.value("clipNorm", 0.0);
  return config;
}

// Two runs in float32 drift from the exact one by amounts of the same kind, not by the same amount.
// So a step may drift kDrifts times as far as PyTorch did up to it. It may drift by the rounding of
// one step in any case.
inline constexpr double kDrifts = 25;
inline constexpr double kLossRounding = 5e-6;

}  // namespace trainyard::engine
