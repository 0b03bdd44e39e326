#include <array>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/onnx/export_op.h"

namespace trainyard::engine {
namespace {

// Whether `value`, or `value` with a bias, is read by one recurrent node as the products of its
// inputs.
bool IsOfRecurrent(const GraphExport& out, Value value) {
  const Node* reader = out.SoleReader(value);
  if (reader != nullptr && std::holds_alternative<BiasOp>(reader->op)) reader = out.SoleReader({out.SoleReaderId(value), 0});
  return reader != nullptr && std::holds_alternative<RecurrentOp>(reader->op);
}

}  // namespace

void ExportOp(const DenseOp& op, NodeId id, GraphExport& out) {
  TY_CHECK(op.epilogue == Epilogue());
  const Value product{id, 0};
  if (IsOfRecurrent(out, product)) return;
  const Node& node = out.node(id);
  const int rank = out.ShapeOf(product).rank();
  const Node* reader = out.SoleReader(product);
  if (rank == 2 && reader != nullptr && std::holds_alternative<BiasOp>(reader->op)) {
    const std::string x = out.Tensor(node.inputs[0], OurOrder(rank));
    const std::string kernel = out.Weights(node.inputs[1]);
    return out.Set({out.SoleReaderId(product), 0}, out.onnx().Add("Gemm", {x, kernel, out.Weights(reader->inputs[1])}, node.name),
                   OurOrder(rank));
  }
  // MatMul takes any axes before the last.
  AxisOrder order = out.OrderOf(node.inputs[0]);
  if (PlaceOfLast(order) != rank - 1) order = OurOrder(rank);
  const std::string x = out.Tensor(node.inputs[0], order);
  out.Set(product, out.onnx().Add("MatMul", {x, out.Weights(node.inputs[1])}, node.name), order);
}

void ExportOp(const BiasOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const Value sum{id, 0};
  if (out.IsSet(sum) || !out.IsSet(node.inputs[0])) return;  // a product's, or a recurrent node's
  const int rank = out.ShapeOf(sum).rank();
  AxisOrder order = out.OrderOf(node.inputs[0]);
  if (PlaceOfLast(order) != rank - 1) order = OurOrder(rank);
  const std::string x = out.Tensor(node.inputs[0], order);
  out.Set(sum, out.onnx().Add("Add", {x, out.Weights(node.inputs[1])}, node.name), order);
}

void ExportOp(const EmbeddingOp&, NodeId id, GraphExport& out) {
  const Node& node = out.node(id);
  const Value ids = node.inputs[0];
  const std::string table = out.Weights(node.inputs[1]);
  const std::string tokens = out.Tensor(ids, OurOrder(out.ShapeOf(ids).rank()));
  out.Set({id, 0}, out.onnx().Add("Gather", {table, tokens}, node.name), OurOrder(out.ShapeOf({id, 0}).rank()));
}

}  // namespace trainyard::engine
