#include "trainer/ops/fuse.h"

#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"

namespace trainyard::engine {
namespace {

// The nodes that one product takes in, and what it becomes.
struct Fusion {
  Epilogue epilogue = {};
  NodeId bias = -1;
  std::vector<NodeId> members;  // the product first; the last one's output becomes the product's
};

class Fuser {
 public:
  explicit Fuser(const Graph& graph) : graph_(graph), fused_(graph), readers_(ReadersOf(graph)), kept_(graph.nodes().size()) {
    for (const Value& value : NamedValues(graph_)) Keep(value);
  }

  Graph Run() {
    FindFusions();
    for (NodeId id = 0; id < Nodes(); ++id) CopyOrFuse(id);
    return std::move(fused_).Finish();
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }

  void Keep(Value value) {
    if (value.output == 0) kept_[value.node] = true;
  }

  // The one node that reads `id`'s first output and nothing else of it, if nobody outside needs the
  // value.
  NodeId OnlyReader(NodeId id) const { return readers_[id].size() == 1 && !kept_[id] ? readers_[id][0] : -1; }

  template <typename T>
  const T* ReaderAs(NodeId id) const {
    const NodeId reader = OnlyReader(id);
    if (reader < 0 || graph_.node(reader).inputs[0] != Value{id, 0}) return nullptr;
    return std::get_if<T>(&graph_.node(reader).op);
  }

  void FindFusions() {
    fusions_.resize(graph_.nodes().size());
    product_of_.assign(graph_.nodes().size(), -1);
    for (NodeId id = 0; id < Nodes(); ++id) {
      const auto* conv = std::get_if<Conv2dOp>(&graph_.node(id).op);
      const auto* dense = std::get_if<DenseOp>(&graph_.node(id).op);
      if (std::holds_alternative<BatchNormOp>(graph_.node(id).op)) FollowBatchNorm(id);
      if (conv == nullptr && dense == nullptr) continue;
      if ((conv != nullptr ? conv->epilogue : dense->epilogue) != Epilogue{}) continue;  // fused before
      fusions_[id] = FollowEpilogue(id, /*may_pool=*/conv != nullptr);
      for (NodeId member : fusions_[id].members) product_of_[member] = id;
    }
  }

  void FollowBatchNorm(NodeId id) {
    const auto* activation = ReaderAs<ActivationOp>(id);
    if (activation == nullptr || activation->activation != Activation::kRelu || std::get<BatchNormOp>(graph_.node(id).op).relu) return;
    fusions_[id].members = {id, OnlyReader(id)};
    for (NodeId member : fusions_[id].members) product_of_[member] = id;
  }

  Fusion FollowEpilogue(NodeId product, bool may_pool) const {
    Fusion fusion{.members = {product}};
    const auto take_in = [&] { fusion.members.push_back(OnlyReader(fusion.members.back())); };
    if (ReaderAs<BiasOp>(product) != nullptr) {
      take_in();
      fusion.bias = fusion.members.back();
      fusion.epilogue.bias = true;
    }
    while (true) {
      if (const auto* op = ReaderAs<ActivationOp>(fusion.members.back());
          op != nullptr && fusion.epilogue.activation == Activation::kIdentity) {
        fusion.epilogue.activation = op->activation;
      } else if (const auto* op = ReaderAs<MaxPoolOp>(fusion.members.back()); may_pool && op != nullptr && !fusion.epilogue.max_pool) {
        fusion.epilogue.max_pool = op->window;
      } else {
        return fusion;
      }
      take_in();
    }
  }

  // A fused product stands where the last node that it took in stood: by then all its inputs exist.
  void CopyOrFuse(NodeId id) {
    const NodeId product = product_of_[id];
    if (product < 0) {
      fused_.Copy(id);
      return;
    }
    if (fusions_[product].members.back() != id) return;
    fused_.Map(id, std::holds_alternative<BatchNormOp>(graph_.node(product).op) ? AddFusedBatchNorm(product) : AddFused(product));
  }

  // Its other outputs, the moving statistics, stay where they were.
  NodeId AddFusedBatchNorm(NodeId id) {
    Node node = graph_.node(id);
    std::get<BatchNormOp>(node.op).relu = true;
    for (Value& input : node.inputs) input = fused_.At(input);
    const NodeId made = fused_.Add(std::move(node));
    fused_.Map(id, made);
    return made;
  }

  NodeId AddFused(NodeId product) {
    const Fusion& fusion = fusions_[product];
    const Node& original = graph_.node(product);
    Node node{original.name,
              original.op,
              {fused_.At(original.inputs[0]), fused_.At(original.inputs[1])},
              {graph_.node(fusion.members.back()).outputs[0]}};
    if (auto* conv = std::get_if<Conv2dOp>(&node.op)) {
      conv->epilogue = fusion.epilogue;
    } else {
      std::get<DenseOp>(node.op).epilogue = fusion.epilogue;
    }
    if (fusion.epilogue.bias) node.inputs.push_back(fused_.At(graph_.node(fusion.bias).inputs[1]));
    if (fusion.epilogue.max_pool) {
      node.outputs.push_back(node.outputs[0]);
      node.outputs[1].dtype = DType::kU8;
    }
    return fused_.Add(std::move(node));
  }

  const Graph& graph_;
  GraphCopy fused_;
  const std::vector<std::vector<NodeId>> readers_;  // [node]
  std::vector<bool> kept_;                          // its first output is a named one or a parameter's result
  std::vector<Fusion> fusions_;                     // [product]
  std::vector<NodeId> product_of_;                  // [node] = the product that takes it in, or -1
};

}  // namespace

Graph FuseEpilogues(const Graph& graph) { return Fuser(graph).Run(); }

}  // namespace trainyard::engine
