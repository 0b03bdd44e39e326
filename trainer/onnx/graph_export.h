// What the exporters of all ops share while a graph becomes an ONNX graph: which tensor holds a
// value, in which order of axes, and who reads it.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/graph/graph.h"
#include "trainer/onnx/axis_order.h"
#include "trainer/onnx/input_transforms.h"
#include "trainer/onnx/onnx_graph.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Names of the free extents of an exported graph.
inline constexpr char kFreeBatch[] = "batch";
inline constexpr char kFreeSteps[] = "steps";

class GraphExport {
 public:
  // An inference graph, and the parameters that it has; both must outlive this. `taken`: null, the
  // graph takes what the model sees. `outputs` are names that no tensor gets but by AddOutput.
  GraphExport(const Graph& graph, const ParameterSet& parameters, const InputTransforms* taken, std::span<const std::string> outputs);

  const Graph& graph() const { return graph_; }
  const Node& node(NodeId id) const { return graph_.node(id); }
  const Shape& ShapeOf(Value value) const { return graph_.spec(value).shape; }
  const InputTransforms* taken() const { return taken_; }
  OnnxGraph& onnx() { return onnx_; }

  // `value` is `tensor`, whose axes are in `order`.
  void Set(Value value, std::string tensor, AxisOrder order);
  bool IsSet(Value value) const { return orders_.contains(value); }
  const AxisOrder& OrderOf(Value value) const { return orders_.at(value); }
  // The tensor of `value` with its axes in `order`. A Transpose is added where there is none yet.
  std::string Tensor(Value value, const AxisOrder& order);
  std::string Tensor(Value value) { return Tensor(value, OrderOf(value)); }

  // A parameter's specification and values.
  const ParameterSpec& ParameterOf(Value value) const;
  std::span<const float> ValuesOf(Value value) const;
  // A constant under the parameter's name: as it is, or with other values and shape.
  std::string Weights(Value parameter);
  std::string Weights(Value parameter, const Shape& shape, std::span<const float> values);

  bool IsRead(Value value) const { return uses_.contains(value); }
  // The node that reads `value`, if one node reads it once and nothing else does.
  const Node* SoleReader(Value value) const;
  NodeId SoleReaderId(Value value) const;

  // A graph's input or output of the shape of `value`, with its free extents. An input's name is
  // reserved by this call.
  void AddInput(Value value, const std::string& name, onnx::TensorProto::DataType type);
  void AddOutput(Value value, const std::string& name);
  // A graph's output of value * deviation + mean.
  void AddLabelOutput(Value value, const std::string& name, const LabelScale& scale);

 private:
  std::vector<OnnxExtent> ExtentsOf(Value value) const;

  const Graph& graph_;
  const ParameterSet& parameters_;
  const InputTransforms* const taken_;
  OnnxGraph onnx_;
  std::map<Value, std::vector<NodeId>> uses_;  // -1: an output of the graph, or a state's next value
  std::set<Value> has_steps_;                  // values whose axis 1 is free
  std::map<Value, AxisOrder> orders_;          // of the tensor that was set
  std::map<std::pair<Value, AxisOrder>, std::string> tensors_;
  std::map<int, std::string> weights_;  // by key, as they are
  std::set<std::string> outputs_;
};

// The values of a graph whose axis 1 may have any extent: the steps of a sequence. Empty where a
// layer needs their number, or where the input is not a sequence.
std::set<Value> ValuesWithFreeSteps(const Graph& graph);

}  // namespace trainyard::engine
