#include "trainer/ops/builder.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/ops/batch_norm.h"
#include "trainer/ops/concat.h"
#include "trainer/ops/conv2d.h"
#include "trainer/ops/dense.h"
#include "trainer/ops/dropout.h"
#include "trainer/ops/elementwise.h"
#include "trainer/ops/embedding.h"
#include "trainer/ops/expect.h"
#include "trainer/ops/l2_penalty.h"
#include "trainer/ops/mean_squared_error.h"
#include "trainer/ops/pool.h"
#include "trainer/ops/recurrent.h"
#include "trainer/ops/softmax.h"

namespace trainyard::engine {
namespace {

// More elements than any machine here holds; products of extents below it cannot overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;

absl::Status InLayer(std::string_view name, const absl::Status& status) { return WithContext(status, fmt::format("layer '{}'", name)); }

template <typename T>
absl::StatusOr<T> InLayer(std::string_view name, absl::StatusOr<T> result) {
  if (!result.ok()) return InLayer(name, result.status());
  return result;
}

absl::Status CheckShape(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape.extents()) {
    if (extent < 1) {
      return absl::InvalidArgumentError(fmt::format("shape {} has an extent of {}, expected at least 1", shape.ToString(), extent));
    }
    if (extent > kMaxElements / elements) {
      return absl::InvalidArgumentError(fmt::format("shape {} has more than {} elements", shape.ToString(), kMaxElements));
    }
    elements *= extent;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Value> GraphBuilder::AddNode(std::string_view name, const Op& op, std::vector<Value> inputs,
                                            std::vector<ValueSpec> outputs) {
  if (name.empty()) return absl::InvalidArgumentError(fmt::format("a layer of op {} has no name", OpName(op)));
  if (graph_.Find(name) >= 0) return absl::InvalidArgumentError(fmt::format("layer '{}': there is already one of that name", name));
  for (const ValueSpec& output : outputs) TY_RETURN_IF_ERROR(InLayer(name, CheckShape(output.shape)));
  return Value{graph_.AddNode({std::string(name), op, std::move(inputs), std::move(outputs)}), 0};
}

std::vector<ValueSpec> GraphBuilder::SpecsOf(std::span<const Value> values) const {
  std::vector<ValueSpec> specs;
  for (const Value& value : values) specs.push_back(spec(value));
  return specs;
}

absl::StatusOr<Value> GraphBuilder::Input(std::string_view name, const Shape& shape, float u8_scale) {
  if (shape.rank() == 0) return absl::InvalidArgumentError(fmt::format("input '{}': shape [] has no batch extent", name));
  return AddNode(name, InputOp{.u8_scale = u8_scale}, {}, {ValueSpec{DType::kF32, shape, /*batched=*/true}});
}

absl::StatusOr<Value> GraphBuilder::IntegerInput(std::string_view name, const Shape& shape, int32_t limit) {
  if (shape.rank() == 0) return absl::InvalidArgumentError(fmt::format("input '{}': shape [] has no batch extent", name));
  if (limit < 1) return absl::InvalidArgumentError(fmt::format("input '{}': limit is {}, expected at least 1", name, limit));
  return AddNode(name, InputOp{.limit = limit}, {}, {ValueSpec{DType::kI32, shape, /*batched=*/true}});
}

absl::StatusOr<Value> GraphBuilder::Parameter(std::string_view name, const Shape& shape, bool trainable) {
  const int key = static_cast<int>(graph_.parameters().size());
  TY_ASSIGN_OR_RETURN(const Value value, AddNode(name, ParameterOp{key}, {}, {ValueSpec{DType::kF32, shape}}));
  TY_CHECK(graph_.AddParameter({std::string(name), shape, trainable}) == key);
  return value;
}

absl::StatusOr<Value> GraphBuilder::State(std::string_view name, const Shape& shape) {
  if (shape.rank() != 2) {
    return absl::InvalidArgumentError(fmt::format("state '{}': shape {}, expected [batch, units]", name, shape.ToString()));
  }
  const int index = static_cast<int>(graph_.states().size());
  TY_ASSIGN_OR_RETURN(const Value value, AddNode(name, StateOp{index}, {}, {ValueSpec{DType::kF32, shape, /*batched=*/true}}));
  TY_CHECK(graph_.AddState({std::string(name), shape, /*trainable=*/false}) == index);
  return value;
}

absl::StatusOr<Value> GraphBuilder::Concat(std::string_view name, std::span<const Value> parts) {
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferConcat(SpecsOf(parts))));
  return AddNode(name, ConcatOp{}, {parts.begin(), parts.end()}, {y});
}

absl::StatusOr<Value> GraphBuilder::Embedding(std::string_view name, Value ids, Value table) {
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferEmbedding(spec(ids), spec(table))));
  return AddNode(name, EmbeddingOp{}, {ids, table}, {y});
}

absl::StatusOr<Value> GraphBuilder::Recurrent(std::string_view name, const RecurrentOp& op, std::vector<Value> inputs) {
  TY_ASSIGN_OR_RETURN(std::vector<ValueSpec> outputs, InLayer(name, InferRecurrent(op, SpecsOf(inputs))));
  return AddNode(name, op, std::move(inputs), std::move(outputs));
}

absl::StatusOr<Value> GraphBuilder::Dense(std::string_view name, Value x, Value kernel) {
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferDense(spec(x), spec(kernel))));
  return AddNode(name, DenseOp{}, {x, kernel}, {y});
}

absl::StatusOr<Value> GraphBuilder::Conv2d(std::string_view name, Value x, Value kernel, std::array<int32_t, 2> stride, Padding padding) {
  const Shape& shape = spec(kernel).shape;
  Window window{.stride = stride, .padding = padding};
  if (shape.rank() == 4) window.size = {static_cast<int32_t>(shape[0]), static_cast<int32_t>(shape[1])};
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferConv2d(window, spec(x), spec(kernel))));
  return AddNode(name, Conv2dOp{.window = window}, {x, kernel}, {y});
}

absl::StatusOr<Value> GraphBuilder::Bias(std::string_view name, Value x, Value bias) {
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferBias(spec(x), spec(bias))));
  return AddNode(name, BiasOp{}, {x, bias}, {y});
}

absl::StatusOr<Value> GraphBuilder::Activate(std::string_view name, Value x, Activation activation) {
  if (activation == Activation::kIdentity) return AddNode(name, IdentityOp{}, {x}, {spec(x)});
  return AddNode(name, ActivationOp{activation}, {x}, {spec(x)});
}

absl::StatusOr<Value> GraphBuilder::Add(std::string_view name, std::span<const Value> terms) {
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferAdd(SpecsOf(terms))));
  return AddNode(name, AddOp{}, {terms.begin(), terms.end()}, {y});
}

absl::StatusOr<Value> GraphBuilder::Dropout(std::string_view name, Value x, float rate) {
  const DropoutOp op{.rate = rate, .stream = dropouts_};
  TY_RETURN_IF_ERROR(InLayer(name, CheckDropout(op, spec(x))));
  ++dropouts_;
  return AddNode(name, op, {x}, {spec(x)});
}

absl::StatusOr<Value> GraphBuilder::Reshape(std::string_view name, Value x, const Shape& shape) {
  TY_RETURN_IF_ERROR(InLayer(name, CheckShape(shape)));
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferReshape(spec(x), shape)));
  return AddNode(name, ReshapeOp{}, {x}, {y});
}

absl::StatusOr<Value> GraphBuilder::Flatten(std::string_view name, Value x) {
  const Shape& shape = spec(x).shape;
  if (shape.rank() == 0) return InLayer(name, absl::InvalidArgumentError("input has shape [], expected a batch"));
  return Reshape(name, x, {shape[0], shape.elements() / shape[0]});
}

absl::StatusOr<Value> GraphBuilder::MaxPool(std::string_view name, Value x, const Window& window) {
  TY_ASSIGN_OR_RETURN(std::vector<ValueSpec> outputs, InLayer(name, InferMaxPool(window, spec(x))));
  return AddNode(name, MaxPoolOp{window}, {x}, std::move(outputs));
}

absl::StatusOr<Value> GraphBuilder::AvgPool(std::string_view name, Value x, const Window& window) {
  TY_ASSIGN_OR_RETURN(ValueSpec y, InLayer(name, InferPool(window, spec(x))));
  return AddNode(name, AvgPoolOp{window}, {x}, {y});
}

absl::StatusOr<Value> GraphBuilder::BatchNorm(std::string_view name, Value x, const BatchNormParameters& parameters, float momentum,
                                              float epsilon) {
  const BatchNormOp op{.momentum = momentum, .epsilon = epsilon};
  std::vector<Value> inputs = {x, parameters.gamma, parameters.beta, parameters.moving_mean, parameters.moving_variance};
  TY_ASSIGN_OR_RETURN(std::vector<ValueSpec> outputs, InLayer(name, InferBatchNorm(op, SpecsOf(inputs))));
  return AddNode(name, op, std::move(inputs), std::move(outputs));
}

absl::StatusOr<Value> GraphBuilder::Softmax(std::string_view name, Value x) {
  TY_RETURN_IF_ERROR(InLayer(name, ExpectBatchOfVectors("input", spec(x))));
  return AddNode(name, SoftmaxOp{}, {x}, {spec(x)});
}

absl::StatusOr<Value> GraphBuilder::SoftmaxCrossEntropy(std::string_view name, Value logits, Value labels) {
  TY_ASSIGN_OR_RETURN(std::vector<ValueSpec> outputs, InLayer(name, InferSoftmaxCrossEntropy(spec(logits), spec(labels))));
  return AddNode(name, SoftmaxCrossEntropyOp{}, {logits, labels}, std::move(outputs));
}

absl::StatusOr<Value> GraphBuilder::CorrectCount(std::string_view name, Value scores, Value labels) {
  TY_RETURN_IF_ERROR(InLayer(name, CheckLabels(spec(scores), spec(labels))));
  return AddNode(name, CorrectCountOp{}, {scores, labels}, {ValueSpec{}});
}

absl::StatusOr<Value> GraphBuilder::MeanSquaredError(std::string_view name, Value prediction, Value target) {
  TY_ASSIGN_OR_RETURN(ValueSpec loss, InLayer(name, InferMeanSquaredError(spec(prediction), spec(target))));
  return AddNode(name, MeanSquaredErrorOp{}, {prediction, target}, {loss});
}

absl::StatusOr<Value> GraphBuilder::L2Penalty(std::string_view name, Value loss, std::span<const Value> weights, float l2) {
  std::vector<Value> inputs = {loss};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  TY_RETURN_IF_ERROR(InLayer(name, CheckL2Penalty(l2, SpecsOf(inputs))));
  return AddNode(name, L2PenaltyOp{l2}, std::move(inputs), {ValueSpec{}});
}

absl::Status GraphBuilder::Output(std::string_view name, Value value) {
  if (graph_.outputs().contains(name)) return absl::InvalidArgumentError(fmt::format("output '{}' is named twice", name));
  graph_.SetOutput(std::string(name), value);
  return absl::OkStatus();
}

absl::Status GraphBuilder::NextValue(Value parameter, Value value) {
  const Node& node = graph_.node(parameter.node);
  const auto* op = std::get_if<ParameterOp>(&node.op);
  TY_CHECK(op != nullptr);
  if (graph_.parameters()[op->key].trainable) {
    return absl::InvalidArgumentError(fmt::format("parameter '{}' is trainable, so only an optimizer may change it", node.name));
  }
  if (spec(value) != spec(parameter)) {
    return absl::InvalidArgumentError(fmt::format("parameter '{}': next value has shape {}, expected {}", node.name,
                                                  spec(value).shape.ToString(), spec(parameter).shape.ToString()));
  }
  for (const ParameterResult& result : graph_.results()) {
    if (result.key == op->key) return absl::InvalidArgumentError(fmt::format("parameter '{}' has two next values", node.name));
  }
  graph_.AddResult({op->key, value, ParameterResult::Kind::kNextValue});
  return absl::OkStatus();
}

absl::Status GraphBuilder::NextState(Value state, Value value) {
  const Node& node = graph_.node(state.node);
  const auto* op = std::get_if<StateOp>(&node.op);
  TY_CHECK(op != nullptr);
  if (spec(value) != spec(state)) {
    return absl::InvalidArgumentError(fmt::format("state '{}': its next value has shape {}, expected {}", node.name,
                                                  spec(value).shape.ToString(), spec(state).shape.ToString()));
  }
  if (graph_.next_states()[op->index].valid()) {
    return absl::InvalidArgumentError(fmt::format("state '{}' is left two values", node.name));
  }
  graph_.SetNextState(op->index, value);
  return absl::OkStatus();
}

Graph GraphBuilder::Build() && {
  dropouts_ = 0;
  return std::exchange(graph_, Graph());
}

}  // namespace trainyard::engine
