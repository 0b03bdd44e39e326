#include <fmt/format.h>

#include <algorithm>

#include "trainer/commands/found_data.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kSteps = 1500;  // of the training, about

bool IsImage(const Shape& shape) {
  constexpr int64_t kSmallest = 8;  // for two convolutions and a pooling
  return shape.rank() == 3 && (shape[2] == 1 || shape[2] == 3) && shape[0] >= kSmallest && shape[1] >= kSmallest;
}

std::string ModelLines(const FoundData& found) {
  if (found.vocabulary > 0) {
    return fmt::format(
        "    model:                                 # reads characters, foretells the next one; docs/models.md has the presets\n"
        "      {{preset: ptbLstm, vocabulary: {}, embedding: 32, units: 128, numLayers: 1, steps: {}}}\n",
        found.vocabulary, found.input[0]);
  }
  if (IsImage(found.input) && found.classes > 0) {
    return fmt::format(
        "    model:                                 # two convolutions, dropout; docs/models.md has the others\n"
        "      {{preset: mnistCnn, inputShape: {}, classes: {}}}\n",
        found.input.ToString(), found.classes);
  }
  return fmt::format(
      "    model:\n"
      "      input: {{shape: {}}}\n"
      "      layers:\n"
      "{}"
      "        - {{name: hidden, dense: {{units: 32, activation: relu}}}}\n"
      "        - {{name: output, dense: {{units: {}}}}}  # {}\n"
      "      loss: {}\n",
      found.input.ToString(), found.input.rank() > 1 ? "        - flatten\n" : "", std::max<int64_t>(1, found.classes),
      found.classes > 0 ? "the classes" : "the number that is learnt", found.classes > 0 ? "softmaxCrossEntropy" : "meanSquaredError");
}

}  // namespace

std::string JobText(const FoundData& found) {
  const int64_t examples = found.vocabulary > 0 ? std::max<int64_t>(1, found.examples / found.input[0]) : found.examples;
  const int64_t batch = std::clamp<int64_t>(examples / 20, 1, 32);
  const int64_t epochs = std::clamp<int64_t>(kSteps * batch / std::max<int64_t>(1, examples), 2, 50);
  std::string text = fmt::format(
      "# Written by `trainyard-trainer init`: {}.\n"
      "apiVersion: trainyard.dev/v1alpha1\n"
      "kind: TrainingJob\n"
      "metadata:\n"
      "  name: {}\n"
      "spec:\n"
      "  worker: {{replicas: 1}}                    # more: with ps: {{replicas: 1}} and another strategy, docs/workers.md\n"
      "  training:\n"
      "{}"
      "    data:                                  # docs/data.md\n",
      found.summary, found.name, ModelLines(found));
  for (const std::string& line : found.data) text += fmt::format("      {}\n", line);
  text += fmt::format(
      "    batchSize: {}\n"
      "    epochs: {}\n"
      "    optimizer: {}\n"
      "    strategy: {{local: {{}}}}\n"
      "    seed: 1\n"
      "    evaluate: {{everyEpochs: 1}}\n",
      batch, epochs, found.vocabulary > 0 ? "{name: adam, learningRate: 0.005, clipNorm: 1}" : "{name: adam, learningRate: 0.001}");
  return text;
}

}  // namespace trainyard::engine
