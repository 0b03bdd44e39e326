// Builds the forward part of a graph, one op a call. Each method checks its inputs' shapes and
// infers the output's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/graph/graph.h"

namespace trainyard::engine {

// The parameters of a batch normalisation, of shape [channels]; the moving ones are not trainable.
struct BatchNormParameters {
  Value gamma, beta, moving_mean, moving_variance;
};

// Errors are InvalidArgument and name the layer, what was found and what was expected: "layer
// 'conv1': window 5x5 does not fit into 4x4 …". `name` is the node's name, which must be new. After
// an error the builder may be used on; nothing was added.
class GraphBuilder {
 public:
  // Sources. `shape` has the batch first. Feeds: f32, or u8 multiplied by u8_scale.
  absl::StatusOr<Value> Input(std::string_view name, const Shape& shape, float u8_scale = 1.0f);
  // Integers (i32 feeds) in [0, limit): class labels, tokens.
  absl::StatusOr<Value> IntegerInput(std::string_view name, const Shape& shape, int32_t limit);
  // Keys count up in the order of these calls.
  absl::StatusOr<Value> Parameter(std::string_view name, const Shape& shape, bool trainable = true);
  // A state [N, units]: the value of the last step's NextState, zeros at the start.
  absl::StatusOr<Value> State(std::string_view name, const Shape& shape);

  // Products: x [N, .., C], kernel [C, D]; x [N, H, W, C], kernel [Kh, Kw, C, D].
  absl::StatusOr<Value> Dense(std::string_view name, Value x, Value kernel);
  absl::StatusOr<Value> Conv2d(std::string_view name, Value x, Value kernel, std::array<int32_t, 2> stride = {1, 1},
                               Padding padding = Padding::kValid);
  // Element by element.
  absl::StatusOr<Value> Bias(std::string_view name, Value x, Value bias);
  absl::StatusOr<Value> Activate(std::string_view name, Value x, Activation activation);
  absl::StatusOr<Value> Add(std::string_view name, std::span<const Value> terms);
  absl::StatusOr<Value> Dropout(std::string_view name, Value x, float rate);
  // Shapes.
  absl::StatusOr<Value> Reshape(std::string_view name, Value x, const Shape& shape);
  absl::StatusOr<Value> Flatten(std::string_view name, Value x);
  absl::StatusOr<Value> Concat(std::string_view name, std::span<const Value> parts);
  // Sequences. ids [N, ..], table [V, D].
  absl::StatusOr<Value> Embedding(std::string_view name, Value ids, Value table);
  // `inputs` in the order of RecurrentInputs (ops/recurrent.h), z first. Its outputs are those of
  // RecurrentOutputs; this is the first.
  absl::StatusOr<Value> Recurrent(std::string_view name, const RecurrentOp& op, std::vector<Value> inputs);
  // Pooling of [N, H, W, C].
  absl::StatusOr<Value> MaxPool(std::string_view name, Value x, const Window& window);
  absl::StatusOr<Value> AvgPool(std::string_view name, Value x, const Window& window);
  // Normalised by the statistics of the batch while training, by the moving ones otherwise. The
  // node's outputs 1 and 2 are the next moving mean and variance, for NextValue.
  absl::StatusOr<Value> BatchNorm(std::string_view name, Value x, const BatchNormParameters& parameters, float momentum, float epsilon);
  // Losses and metrics.
  absl::StatusOr<Value> Softmax(std::string_view name, Value x);
  absl::StatusOr<Value> SoftmaxCrossEntropy(std::string_view name, Value logits, Value labels);
  absl::StatusOr<Value> CorrectCount(std::string_view name, Value scores, Value labels);
  absl::StatusOr<Value> MeanSquaredError(std::string_view name, Value prediction, Value target);
  // loss + l2 * the sum of all weights' squares.
  absl::StatusOr<Value> L2Penalty(std::string_view name, Value loss, std::span<const Value> weights, float l2);

  // Names a value that can be fetched: "loss", "logits", "correct".
  absl::Status Output(std::string_view name, Value value);
  // The scalar that training makes small (Graph::loss).
  void Loss(Value loss) { graph_.SetLoss(loss); }
  // A parameter that is not trainable becomes `value` after the step.
  absl::Status NextValue(Value parameter, Value value);
  // A state holds `value` when the next step starts.
  absl::Status NextState(Value state, Value value);

  const ValueSpec& spec(Value value) const { return graph_.spec(value); }
  const Graph& graph() const { return graph_; }
  // The finished graph; the builder is empty afterwards.
  Graph Build() &&;

 private:
  std::vector<ValueSpec> SpecsOf(std::span<const Value> values) const;
  absl::StatusOr<Value> AddNode(std::string_view name, const Op& op, std::vector<Value> inputs, std::vector<ValueSpec> outputs);

  Graph graph_;
  uint32_t dropouts_ = 0;
};

}  // namespace trainyard::engine
