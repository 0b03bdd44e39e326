#include <algorithm>
#include <array>
#include <string_view>

#include "trainer/base/check.h"
#include "trainer/graph/window.h"
#include "trainer/onnx/export_op.h"
#include "trainer/tensor/permute.h"

namespace trainyard::engine {
namespace {

constexpr std::array kOutInHeightWidth = {3, 2, 0, 1};  // of HWIO

// kernel_shape, strides and pads of the node that was added last.
void SetWindow(GraphExport& out, const Window& window, const Shape& input) {
  const absl::StatusOr<WindowGeometry> geometry = PlaceWindow(window, input);
  TY_CHECK(geometry.ok());
  std::array<int64_t, 2> size{};
  std::array<int64_t, 2> stride{};
  std::array<int64_t, 4> pads{};  // above, left, below, right
  for (size_t axis = 0; axis < 2; ++axis) {
    size[axis] = window.size[axis];
    stride[axis] = window.stride[axis];
    pads[axis] = geometry->pad_before[axis];
    const int64_t covered = (geometry->out[axis] - 1) * stride[axis] + size[axis];
    pads[axis + 2] = std::max<int64_t>(0, covered - geometry->in[axis] - pads[axis]);
  }
  onnx::NodeProto& node = out.onnx().last_node();
  SetIntegers(node, "kernel_shape", size);
  SetIntegers(node, "strides", stride);
  SetIntegers(node, "pads", pads);
}

void ExportPool(std::string_view type, const Window& window, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const AxisOrder order = ChannelsFirst(4);
  out.Set({id, 0}, out.onnx().Add(type, {out.Tensor(node.inputs[0], order)}, node.name), order);
  SetWindow(out, window, out.ShapeOf(node.inputs[0]));
}

}  // namespace

void ExportOp(const Conv2dOp& op, NodeId id, GraphExport& out) {
  TY_CHECK(op.epilogue == Epilogue());
  const Node& node = out.node(id);
  const AxisOrder order = ChannelsFirst(4);
  const Shape& shape = out.ParameterOf(node.inputs[1]).shape;
  const std::vector<float> kernel = Permuted(out.ValuesOf(node.inputs[1]), shape, kOutInHeightWidth);
  std::vector<std::string> inputs = {out.Tensor(node.inputs[0], order),
                                     out.Weights(node.inputs[1], PermutedShape(shape, kOutInHeightWidth), kernel)};
  Value value{id, 0};
  const Node* reader = out.SoleReader(value);
  if (reader != nullptr && std::holds_alternative<BiasOp>(reader->op)) {
    inputs.push_back(out.Weights(reader->inputs[1]));
    value = {out.SoleReaderId(value), 0};
  }
  const std::string name = out.onnx().NewName(node.name);
  out.onnx().AddNode("Conv", inputs, std::span(&name, 1));
  SetWindow(out, op.window, out.ShapeOf(node.inputs[0]));
  out.Set(value, name, order);
}

void ExportOp(const MaxPoolOp& op, NodeId id, GraphExport& out) { ExportPool("MaxPool", op.window, id, out); }

void ExportOp(const AvgPoolOp& op, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const Shape& image = out.ShapeOf(node.inputs[0]);
  if (op.window.size[0] != image[1] || op.window.size[1] != image[2] || out.ShapeOf({id, 0}).elements() != image[0] * image[3]) {
    return ExportPool("AveragePool", op.window, id, out);  // its mean leaves padding out, as ours does
  }
  const AxisOrder order = ChannelsFirst(4);
  out.Set({id, 0}, out.onnx().Add("GlobalAveragePool", {out.Tensor(node.inputs[0], order)}, node.name), order);
}

void ExportOp(const BatchNormOp& op, NodeId id, GraphExport& out) {
  TY_CHECK(!op.relu);
  const Node& node = out.node(id);
  const AxisOrder order = ChannelsFirst(out.ShapeOf({id, 0}).rank());
  std::vector<std::string> inputs = {out.Tensor(node.inputs[0], order)};
  for (size_t i = 1; i < node.inputs.size(); ++i) inputs.push_back(out.Weights(node.inputs[i]));
  const std::string name = out.onnx().NewName(node.name);
  SetNumber(out.onnx().AddNode("BatchNormalization", inputs, std::span(&name, 1)), "epsilon", op.epsilon);
  out.Set({id, 0}, name, order);
}

}  // namespace trainyard::engine
