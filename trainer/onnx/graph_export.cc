#include "trainer/onnx/graph_export.h"

#include <algorithm>
#include <variant>

#include "trainer/base/check.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

constexpr NodeId kOutside = -1;

}  // namespace

std::set<Value> ValuesWithFreeSteps(const Graph& graph) {
  std::set<Value> free;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (std::holds_alternative<InputOp>(node.op)) {
      const ValueSpec& spec = node.outputs[0];
      if (spec.shape.rank() == (spec.dtype == DType::kF32 ? 3 : 2)) free.insert({id, 0});
      continue;
    }
    if (std::ranges::none_of(node.inputs, [&](Value input) { return free.contains(input); })) continue;
    if (std::holds_alternative<ReshapeOp>(node.op)) return {};
    const bool recurrent = std::holds_alternative<RecurrentOp>(node.op);
    const int outputs = recurrent ? RecurrentOutputs::kSequence + 1 : static_cast<int>(node.outputs.size());
    for (int output = 0; output < outputs; ++output) {
      if (node.outputs[static_cast<size_t>(output)].batched) free.insert({id, output});
    }
  }
  return free;
}

GraphExport::GraphExport(const Graph& graph, const ParameterSet& parameters, const InputTransforms* taken,
                         std::span<const std::string> outputs)
    : graph_(graph), parameters_(parameters), taken_(taken), has_steps_(ValuesWithFreeSteps(graph)) {
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    for (const Value input : graph.node(id).inputs) uses_[input].push_back(id);
  }
  for (const auto& [name, value] : graph.outputs()) uses_[value].push_back(kOutside);
  for (const Value next : graph.next_states()) uses_[next].push_back(kOutside);
  for (const std::string& output : outputs) TY_CHECK(onnx_.NewName(output) == output);
  outputs_.insert(outputs.begin(), outputs.end());
}

void GraphExport::Set(Value value, std::string tensor, AxisOrder order) {
  TY_CHECK(static_cast<int>(order.size()) == ShapeOf(value).rank());
  tensors_[{value, order}] = std::move(tensor);
  TY_CHECK(orders_.emplace(value, std::move(order)).second);
}

std::string GraphExport::Tensor(Value value, const AxisOrder& order) {
  if (const auto found = tensors_.find({value, order}); found != tensors_.end()) return found->second;
  const AxisOrder& from = OrderOf(value);
  const std::string tensor = tensors_.at({value, from});
  std::string transposed = onnx_.Add("Transpose", {tensor}, tensor + "/transposed");
  SetIntegers(onnx_.last_node(), "perm", TransposeOf(from, order));
  tensors_[{value, order}] = transposed;
  return transposed;
}

const ParameterSpec& GraphExport::ParameterOf(Value value) const {
  const auto* parameter = std::get_if<ParameterOp>(&node(value.node).op);
  TY_CHECK(parameter != nullptr);
  return parameters_.spec(parameter->key);
}

std::span<const float> GraphExport::ValuesOf(Value value) const {
  return parameters_.values(std::get<ParameterOp>(node(value.node).op).key);
}

std::string GraphExport::Weights(Value parameter) {
  const int key = std::get<ParameterOp>(node(parameter.node).op).key;
  std::string& name = weights_[key];
  if (name.empty()) name = Weights(parameter, ParameterOf(parameter).shape, ValuesOf(parameter));
  return name;
}

std::string GraphExport::Weights(Value parameter, const Shape& shape, std::span<const float> values) {
  return onnx_.AddNumbers(ParameterOf(parameter).name, shape, values);
}

NodeId GraphExport::SoleReaderId(Value value) const {
  const auto found = uses_.find(value);
  return found != uses_.end() && found->second.size() == 1 ? found->second[0] : kOutside;
}

const Node* GraphExport::SoleReader(Value value) const {
  const NodeId id = SoleReaderId(value);
  return id == kOutside ? nullptr : &node(id);
}

std::vector<OnnxExtent> GraphExport::ExtentsOf(Value value) const {
  std::vector<OnnxExtent> extents;
  for (const int64_t extent : ShapeOf(value).extents()) extents.push_back({.extent = extent, .free = {}});
  extents.at(0).free = kFreeBatch;
  if (has_steps_.contains(value)) extents.at(1).free = kFreeSteps;
  return extents;
}

void GraphExport::AddInput(Value value, const std::string& name, onnx::TensorProto::DataType type) {
  TY_CHECK(onnx_.NewName(name) == name);
  onnx_.AddInput(name, type, ExtentsOf(value));
}

void GraphExport::AddOutput(Value value, const std::string& name) {
  const std::string tensor = Tensor(value, OurOrder(ShapeOf(value).rank()));
  if (onnx_.IsComputed(tensor) && !outputs_.contains(tensor)) {
    onnx_.Rename(tensor, name);
    for (auto& [key, of] : tensors_) {
      if (of == tensor) of = name;
    }
  } else {
    onnx_.AddNode("Identity", std::span(&tensor, 1), std::span(&name, 1));
  }
  onnx_.AddOutput(name, onnx::TensorProto::FLOAT, ExtentsOf(value));
}

void GraphExport::AddLabelOutput(Value value, const std::string& name, const LabelScale& scale) {
  const std::array deviation = {static_cast<float>(scale.deviation)};
  const std::array mean = {static_cast<float>(scale.mean)};
  const std::string tensor = Tensor(value, OurOrder(ShapeOf(value).rank()));
  const std::string scaled = onnx_.Add("Mul", {tensor, onnx_.AddNumbers(name + "/std", Shape(), deviation)}, name + "/scaled");
  const std::array terms = {scaled, onnx_.AddNumbers(name + "/mean", Shape(), mean)};
  onnx_.AddNode("Add", terms, std::span(&name, 1));
  onnx_.AddOutput(name, onnx::TensorProto::FLOAT, ExtentsOf(value));
}

}  // namespace trainyard::engine
