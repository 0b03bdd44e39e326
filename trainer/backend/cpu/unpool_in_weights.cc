#include "trainer/backend/cpu/unpool_in_weights.h"

#include <utility>

#include "trainer/backend/cpu/conv_shape.h"
#include "trainer/backend/cpu/weight_gradient_path.h"
#include "trainer/graph/graph_copy.h"
#include "trainer/graph/window.h"

namespace trainyard::engine {
namespace {

bool Unpools(const Graph& graph, const Node& node, Precision precision) {
  const auto* const conv = std::get_if<Conv2dOp>(&node.op);
  if (conv == nullptr || !conv->epilogue.max_pool || !TilesImage(*conv->epilogue.max_pool)) return false;
  if (precision == Precision::kBfloat16) return node.outputs[0].narrow;
  const Shape& x = graph.spec(node.inputs[0]).shape;
  const absl::StatusOr<ConvShape> shape = MakeConvShape(conv->window, x, graph.spec(node.inputs[1]).shape);
  return shape.ok() && WeightGradientPathOf(*shape, x[0]) == WeightGradientPath::kPanels;
}

}  // namespace

Graph UnpoolInWeights(const Graph& graph, Precision precision) {
  GraphCopy copy(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (!Unpools(graph, graph.node(id), precision)) {
      copy.Copy(id);
      continue;
    }
    Node node = graph.node(id);
    std::get<Conv2dOp>(node.op).epilogue.unpool_in_weights = true;
    for (Value& input : node.inputs) input = copy.At(input);
    copy.Map(id, copy.Add(std::move(node)));
  }
  return std::move(copy).Finish();
}

}  // namespace trainyard::engine
