#include <vector>

#include "trainer/onnx/activation_name.h"
#include "trainer/onnx/export_op.h"

namespace trainyard::engine {
namespace {

// All inputs, in the order of the first.
std::vector<std::string> InputsAlike(const Node& node, GraphExport& out) {
  const AxisOrder order = out.OrderOf(node.inputs[0]);
  std::vector<std::string> inputs;
  for (const Value input : node.inputs) inputs.push_back(out.Tensor(input, order));
  return inputs;
}

void PassOn(NodeId id, GraphExport& out) {
  const Value input = out.node(id).inputs[0];
  out.Set({id, 0}, out.Tensor(input), out.OrderOf(input));
}

}  // namespace

void ExportOp(const ActivationOp& op, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const Value x = node.inputs[0];
  out.Set({id, 0}, out.onnx().Add(OnnxActivation(op.activation), {out.Tensor(x)}, node.name), out.OrderOf(x));
}

void ExportOp(const AddOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const std::vector<std::string> inputs = InputsAlike(node, out);
  const std::string name = out.onnx().NewName(node.name);
  out.onnx().AddNode(inputs.size() == 2 ? "Add" : "Sum", inputs, std::span(&name, 1));
  out.Set({id, 0}, name, out.OrderOf(node.inputs[0]));
}

void ExportOp(const SoftmaxOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const AxisOrder order = out.OrderOf(node.inputs[0]);
  out.Set({id, 0}, out.onnx().Add("Softmax", {out.Tensor(node.inputs[0])}, node.name), order);
  SetInteger(out.onnx().last_node(), "axis", PlaceOfLast(order));
}

void ExportOp(const ConcatOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const AxisOrder order = out.OrderOf(node.inputs[0]);
  const std::vector<std::string> inputs = InputsAlike(node, out);
  const std::string name = out.onnx().NewName(node.name);
  SetInteger(out.onnx().AddNode("Concat", inputs, std::span(&name, 1)), "axis", PlaceOfLast(order));
  out.Set({id, 0}, name, order);
}

void ExportOp(const ReshapeOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const Value x = node.inputs[0];
  const Shape& from = out.ShapeOf(x);
  const AxisOrder order = HasOurElements(out.OrderOf(x), from) ? out.OrderOf(x) : OurOrder(from.rank());
  std::vector<int64_t> extents(node.outputs[0].shape.extents().begin(), node.outputs[0].shape.extents().end());
  extents[0] = 0;  // as it is in the input
  const std::string tensor = out.Tensor(x, order);
  out.Set({id, 0}, out.onnx().Add("Reshape", {tensor, out.onnx().AddIntegers(node.name + "/shape", extents)}, node.name),
          OurOrder(static_cast<int>(extents.size())));
}

void ExportOp(const IdentityOp&, NodeId id, GraphExport& out) { PassOn(id, out); }
// Of training only.
void ExportOp(const DropoutOp&, NodeId id, GraphExport& out) { PassOn(id, out); }

}  // namespace trainyard::engine
