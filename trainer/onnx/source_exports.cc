#include <algorithm>
#include <utility>

#include "trainer/onnx/export_op.h"

namespace trainyard::engine {
namespace {

// One number, one for each of the last axis, or one for each element of an input of `shape`.
std::string Numbers(GraphExport& out, const std::string& name, const Shape& shape, const std::vector<float>& numbers) {
  const auto count = static_cast<int64_t>(numbers.size());
  if (count == 1) return out.onnx().AddNumbers(name, Shape(), numbers);
  return out.onnx().AddNumbers(name, count == shape.elements() ? shape : Shape({count}), numbers);
}

bool AreAll(const std::vector<float>& numbers, float value) { return std::ranges::count(numbers, value) == std::ssize(numbers); }

std::string Filled(GraphExport& out, const std::string& name, const Shape& shape, const std::vector<float>& missing) {
  OnnxGraph& onnx = out.onnx();
  const std::string absent = onnx.Add("IsNaN", {name}, name + "/is_missing");
  return onnx.Add("Where", {absent, Numbers(out, name + "/missing", shape, missing), name}, name + "/filled");
}

std::string Transformed(GraphExport& out, std::string tensor, const std::string& name, const Shape& shape, const Normalization& step) {
  OnnxGraph& onnx = out.onnx();
  if (!AreAll(step.factor, 1)) tensor = onnx.Add("Mul", {tensor, Numbers(out, name + "/factor", shape, step.factor)}, name + "/scaled");
  if (AreAll(step.offset, 0)) return tensor;
  return onnx.Add("Add", {tensor, Numbers(out, name + "/offset", shape, step.offset)}, name + "/normalized");
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
    const Shape& shape = node.outputs[0].shape;
    if (!taken->missing.empty()) tensor = Filled(out, node.name, shape, taken->missing);
    for (const Normalization& step : taken->steps) tensor = Transformed(out, std::move(tensor), node.name, shape, step);
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
