#include "trainer/onnx/model_layers.h"

#include <map>
#include <variant>

#include "trainer/graph/overloaded.h"
#include "trainer/model/flattened_images.h"

namespace trainyard::engine {
namespace {

class Walk {
 public:
  explicit Walk(const Graph& graph) : graph_(graph), images_(FlattenedImagesOf(graph)) {}

  std::vector<ModelLayer> Layers() && {
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes().size()); ++id) {
      const Node& node = graph_.node(id);
      std::visit(Overloaded{
                     [&](const Conv2dOp&) { Push(id, WeightsKind::kConv2d); },
                     [&](const DenseOp&) { Push(id, WeightsKind::kDense); },
                     [&](const EmbeddingOp&) { Push(id, WeightsKind::kEmbedding); },
                     [&](const BatchNormOp& op) { Push(id, WeightsKind::kBatchNormalization).epsilon = op.epsilon; },
                     [&](const BiasOp&) { layers_[written_[id] = written_.at(node.inputs[0].node)].keys.push_back(KeyOf(node.inputs[1])); },
                     [&](const RecurrentOp& op) { Complete(op, node); },
                     [](const auto&) {},
                 },
                 node.op);
    }
    return std::move(layers_);
  }

 private:
  int KeyOf(Value value) const { return std::get<ParameterOp>(graph_.node(value.node).op).key; }

  // All inputs but the first are parameters.
  ModelLayer& Push(NodeId id, WeightsKind kind) {
    const Node& node = graph_.node(id);
    ModelLayer layer{.kind = kind, .name = {}, .keys = {}};
    for (size_t i = 1; i < node.inputs.size(); ++i) layer.keys.push_back(KeyOf(node.inputs[i]));
    const std::string& first = graph_.parameters()[static_cast<size_t>(layer.keys[0])].name;
    layer.name = first.substr(0, first.rfind('/'));
    if (const auto image = images_.find(node.inputs[0]); image != images_.end()) layer.image = image->second;
    written_[id] = layers_.size();
    layers_.push_back(std::move(layer));
    return layers_.back();
  }

  // The layer that began with the products of its inputs.
  void Complete(const RecurrentOp& op, const Node& node) {
    ModelLayer& layer = layers_[written_.at(node.inputs[0].node)];
    layer.kind = WeightsKindOf(op.cell);
    layer.reverse = op.reverse;
    layer.keys.insert(layer.keys.begin() + 1, KeyOf(node.inputs[1]));
    if (op.bias) layer.keys.push_back(KeyOf(node.inputs[2]));
  }

  const Graph& graph_;
  const FlattenedImages images_;
  std::vector<ModelLayer> layers_;
  std::map<NodeId, size_t> written_;  // the layer that a product belongs to
};

}  // namespace

std::vector<ModelLayer> ModelLayersOf(const Graph& forward) { return Walk(forward).Layers(); }

}  // namespace trainyard::engine
