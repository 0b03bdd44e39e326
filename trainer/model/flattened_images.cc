#include "trainer/model/flattened_images.h"

#include <variant>

namespace trainyard::engine {
namespace {

bool KeepsPlaces(const Op& op) {
  return std::holds_alternative<ActivationOp>(op) || std::holds_alternative<DropoutOp>(op) || std::holds_alternative<IdentityOp>(op) ||
         std::holds_alternative<BatchNormOp>(op) || std::holds_alternative<AddOp>(op) || std::holds_alternative<SoftmaxOp>(op);
}

}  // namespace

FlattenedImages FlattenedImagesOf(const Graph& graph) {
  FlattenedImages flattened;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (std::holds_alternative<ReshapeOp>(node.op)) {
      const Shape& from = graph.spec(node.inputs[0]).shape;
      if (node.outputs[0].shape.rank() != 2) continue;
      const int64_t pixels = from.rank() == 4 ? from[1] * from[2] : 1;
      if (pixels > 1 && from[3] > 1) flattened[{id, 0}] = {pixels, from[3]};
      if (from.rank() != 2) continue;
    } else if (!KeepsPlaces(node.op)) {
      continue;
    }
    if (const auto found = flattened.find(node.inputs[0]); found != flattened.end()) flattened[{id, 0}] = found->second;
  }
  return flattened;
}

}  // namespace trainyard::engine
