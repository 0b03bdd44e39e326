#include <algorithm>
#include <utility>

#include "trainer/onnx/export_op.h"

namespace trainyard::engine {
namespace {

// One number, or one for each of the last axis.
std::string Numbers(GraphExport& out, const std::string& name, const std::vector<float>& numbers) {
  const Shape shape = numbers.size() == 1 ? Shape() : Shape({static_cast<int64_t>(numbers.size())});
  return out.onnx().AddNumbers(name, shape, numbers);
}

std::string Transformed(GraphExport& out, std::string tensor, const std::string& name, const Normalization& step) {
  OnnxGraph& onnx = out.onnx();
  tensor = onnx.Add("Mul", {tensor, Numbers(out, name + "/factor", step.factor)}, name + "/scaled");
  if (std::ranges::all_of(step.offset, [](float offset) { return offset == 0; })) return tensor;
  return onnx.Add("Add", {tensor, Numbers(out, name + "/offset", step.offset)}, name + "/normalized");
}

}  // namespace

void ExportOp(const InputOp& op, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const Value value{id, 0};
  const AxisOrder order = OurOrder(node.outputs[0].shape.rank());
  if (op.limit > 0) {
    out.AddInput(value, node.name, onnx::TensorProto::INT64);
    return out.Set(value, node.name, order);
  }
  const InputTransforms* taken = out.taken();
  const bool bytes = taken != nullptr && taken->taken == DType::kU8;
  out.AddInput(value, node.name, bytes ? onnx::TensorProto::UINT8 : onnx::TensorProto::FLOAT);
  std::string tensor = node.name;
  if (bytes) {
    tensor = out.onnx().Add("Cast", {tensor}, node.name + "/numbers");
    SetInteger(out.onnx().last_node(), "to", onnx::TensorProto::FLOAT);
  }
  if (taken != nullptr) {
    for (const Normalization& step : taken->steps) tensor = Transformed(out, std::move(tensor), node.name, step);
  }
  out.Set(value, std::move(tensor), order);
}

// The ops that read a parameter bring it into their own layout.
void ExportOp(const ParameterOp&, NodeId, GraphExport&) {}

void ExportOp(const StateOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  out.AddInput({id, 0}, node.name, onnx::TensorProto::FLOAT);
  out.Set({id, 0}, node.name, OurOrder(node.outputs[0].shape.rank()));
}

}  // namespace trainyard::engine
