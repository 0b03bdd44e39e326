#include <array>
#include <utility>
#include <vector>

#include "trainer/onnx/activation_name.h"
#include "trainer/onnx/cell_layout.h"
#include "trainer/onnx/export_op.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

// What lies before a recurrent node: the products of its inputs.
struct InputProducts {
  Value x;
  Value kernel;
  Value bias;  // not valid: none, or the node's own
};

InputProducts ProductsOf(const GraphExport& out, Value z) {
  InputProducts products;
  const Node* node = &out.node(z.node);
  if (std::holds_alternative<BiasOp>(node->op)) {
    products.bias = node->inputs[1];
    node = &out.node(node->inputs[0].node);
  }
  products.x = node->inputs[0];
  products.kernel = node->inputs[1];
  return products;
}

std::string Gates(GraphExport& out, Cell cell, Value kernel) {
  const Shape& shape = out.ParameterOf(kernel).shape;
  return out.Weights(kernel, {1, shape[1], shape[0]}, OnnxGates(cell, shape, out.ValuesOf(kernel)));
}

std::string Bias(GraphExport& out, Cell cell, Value bias) {
  if (!bias.valid()) return "";
  const Shape& shape = out.ParameterOf(bias).shape;
  return out.Weights(bias, {1, 2 * shape[-1]}, OnnxBias(cell, shape, out.ValuesOf(bias)));
}

// [samples, units] → [1, samples, units]
std::string InitialState(GraphExport& out, Value state, const std::string& axis) {
  const std::string tensor = out.Tensor(state, OurOrder(2));
  return out.onnx().Add("Unsqueeze", {tensor, axis}, tensor + "/directions");
}

// An LSTM, GRU or RNN has the functions of our cells without being told; but for a simple RNN's.
void SetFunctions(onnx::NodeProto& node, const RecurrentOp& op) {
  if (op.cell == Cell::kGru) SetInteger(node, "linear_before_reset", 1);
  if (op.cell != Cell::kSimpleRnn) return;
  std::string function(OnnxActivation(op.activation));
  if (function.empty()) {  // y = 1 x + 0
    function = "Affine";
    SetNumbers(node, "activation_alpha", std::array{1.0F});
    SetNumbers(node, "activation_beta", std::array{0.0F});
  }
  SetTexts(node, "activations", std::span(&function, 1));
}

}  // namespace

void ExportOp(const RecurrentOp& op, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const RecurrentInputs at(op);
  const auto input = [&](int place) { return node.inputs[static_cast<size_t>(place)]; };
  InputProducts products = ProductsOf(out, input(at.z));
  if (op.bias) products.bias = input(at.bias);
  OnnxGraph& onnx = out.onnx();
  const auto axis = [&](int64_t number) { return onnx.AddIntegers(node.name + "/axis", std::array{number}); };

  std::vector<std::string> inputs = {out.Tensor(products.x, StepsFirst()), Gates(out, op.cell, products.kernel),
                                     Gates(out, op.cell, input(at.kernel)), Bias(out, op.cell, products.bias)};
  if (op.initial) {
    inputs.emplace_back();  // all sequences have all steps
    inputs.push_back(InitialState(out, input(at.h), axis(0)));
    if (op.cell == Cell::kLstm) inputs.push_back(InitialState(out, input(at.c), axis(0)));
  } else if (inputs.back().empty()) {
    inputs.pop_back();
  }

  // The operator's outputs, ours, and the axis of directions.
  using Output = std::pair<int, int64_t>;
  std::vector<Output> ours = {{RecurrentOutputs::kSequence, 1}, {RecurrentOutputs::kLast, 0}};
  if (op.cell == Cell::kLstm) ours.emplace_back(RecurrentOutputs::kLastCell, 0);
  std::vector<std::string> outputs;
  for (const auto& [output, directions] : ours) {
    outputs.push_back(out.IsRead({id, output}) ? onnx.NewName(node.name + "/directions") : "");
  }
  while (!outputs.empty() && outputs.back().empty()) outputs.pop_back();
  onnx::NodeProto& cell = onnx.AddNode(OnnxCell(op.cell), inputs, outputs);
  SetInteger(cell, "hidden_size", out.ParameterOf(input(at.kernel)).shape[0]);
  if (op.reverse) SetText(cell, "direction", "reverse");
  SetFunctions(cell, op);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    const auto& [output, directions] = ours[i];
    const std::string squeezed = onnx.Add("Squeeze", {outputs[i], axis(directions)}, node.name);
    out.Set({id, output}, squeezed, output == RecurrentOutputs::kSequence ? StepsFirst() : OurOrder(2));
  }
}

}  // namespace trainyard::engine
