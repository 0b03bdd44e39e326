#include "trainer/data/formats/synthetic.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "trainer/data/memory_dataset.h"
#include "trainer/data/random.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostGeneratedBytes = int64_t{4} << 30;

// Streams of the seed: what is learnt, and the examples of each split.
constexpr uint64_t kTruthStream = 0x7275746820;
constexpr uint64_t kExampleStream = 0x78616d706c65;

std::unique_ptr<Dataset> MakeClasses(const SyntheticOptions& options, DatasetInfo info) {
  const int64_t values = info.example_shape.elements();
  Random truth(options.seed, kTruthStream);
  std::vector<float> patterns(options.expected.classes * values);
  for (float& value : patterns) value = static_cast<float>(1.0 - truth.Unit());

  info.y_dtype = DType::kI32;
  Buffer x(info.examples * values * sizeof(float));
  Buffer y(info.examples * sizeof(int32_t));
  Random random(options.seed, kExampleStream + options.stream);
  for (int64_t i = 0; i < info.examples; ++i) {
    const auto label = static_cast<int32_t>(random.Below(options.expected.classes));
    y.as<int32_t>()[i] = label;
    float* example = x.as<float>() + i * values;
    for (int64_t j = 0; j < values; ++j) example[j] = static_cast<float>(patterns[label * values + j] + options.noise * random.Normal());
  }
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(y));
}

std::unique_ptr<Dataset> MakeLinear(const SyntheticOptions& options, DatasetInfo info) {
  const int64_t values = info.example_shape.elements();
  const int64_t targets = options.expected.target_shape.elements();
  Random truth(options.seed, kTruthStream);
  const double scale = 1.0 / std::sqrt(static_cast<double>(values));
  std::vector<double> weights(targets * values);
  for (double& weight : weights) weight = (1.0 - 2.0 * truth.Unit()) * scale;
  std::vector<double> bias(targets);
  for (double& value : bias) value = 1.0 - 2.0 * truth.Unit();

  info.y_dtype = DType::kF32;
  info.label_shape = options.expected.target_shape;
  Buffer x(info.examples * values * sizeof(float));
  Buffer y(info.examples * targets * sizeof(float));
  Random random(options.seed, kExampleStream + options.stream);
  for (int64_t i = 0; i < info.examples; ++i) {
    float* example = x.as<float>() + i * values;
    for (int64_t j = 0; j < values; ++j) example[j] = static_cast<float>(random.Normal());
    for (int64_t t = 0; t < targets; ++t) {
      double sum = bias[t] + options.noise * random.Normal();
      for (int64_t j = 0; j < values; ++j) sum += weights[t * values + j] * static_cast<double>(example[j]);
      y.as<float>()[i * targets + t] = static_cast<float>(sum);
    }
  }
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(y));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticDataset(const SyntheticOptions& options) {
  if (options.examples < 1) return absl::InvalidArgumentError(fmt::format("examples is {}, expected at least 1", options.examples));
  const int64_t per_example =
      (options.expected.example_shape.elements() + options.expected.target_shape.elements()) * int64_t{sizeof(float)};
  if (options.examples > kMostGeneratedBytes / std::max<int64_t>(per_example, 1)) {
    return absl::InvalidArgumentError(fmt::format("examples is {} of {} bytes each, expected at most {} bytes in all", options.examples,
                                                  per_example, kMostGeneratedBytes));
  }
  DatasetInfo info;
  info.name = "synthetic data";
  info.examples = options.examples;
  info.example_shape = options.expected.example_shape;
  info.x_dtype = DType::kF32;
  return options.expected.classes > 0 ? MakeClasses(options, std::move(info)) : MakeLinear(options, std::move(info));
}

}  // namespace trainyard::engine
