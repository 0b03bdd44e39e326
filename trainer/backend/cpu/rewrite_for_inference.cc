#include <array>
#include <map>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/inference.h"
#include "trainer/graph/graph_copy.h"

namespace trainyard::engine {
namespace {

class Rewriter {
 public:
  explicit Rewriter(const Graph& graph)
      : graph_(graph),
        copy_(graph),
        readers_(ReadersOf(graph)),
        kept_(graph.nodes().size()),
        conv_of_(graph.nodes().size(), -1),
        goes_into_(graph.nodes().size(), -1) {
    for (const Value& value : NamedValues(graph_)) kept_[value.node] = true;
  }

  Graph Run() {
    for (NodeId id = 0; id < Nodes(); ++id) {
      const auto* conv = std::get_if<Conv2dOp>(&graph_.node(id).op);
      if (conv != nullptr && !conv->epilogue.max_pool && conv->epilogue.activation == Activation::kIdentity) Follow(id);
    }
    for (NodeId id = 0; id < Nodes(); ++id) goes_into_[id] = NextPointwise(id);
    for (NodeId id = 0; id < Nodes(); ++id) {
      if (goes_into_[id] >= 0) continue;
      if (conv_of_[id] < 0) {
        Add(id, Normalised(graph_.node(id)));
      } else if (chains_[conv_of_[id]].back() == id) {
        AddFused(conv_of_[id]);
      }
    }
    return std::move(copy_).Finish();
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }

  // The node that alone reads `id`, and its first output only; -1 where there is none, or `id` is
  // wanted outside.
  NodeId OnlyReader(NodeId id) const {
    if (kept_[id] || readers_[id].size() != 1 || conv_of_[readers_[id][0]] >= 0) return -1;
    return readers_[id][0];
  }

  // The nodes that become one with convolution `id`: batch normalisation, then the sum of two, then
  // an activation.
  void Follow(NodeId id) {
    std::vector<NodeId> chain = {id};
    bool activated = false;
    if (const NodeId next = OnlyReader(id); next >= 0 && std::holds_alternative<BatchNormOp>(graph_.node(next).op)) {
      chain.push_back(next);
      activated = std::get<BatchNormOp>(graph_.node(next).op).relu;
    }
    if (const NodeId next = activated ? -1 : OnlyReader(chain.back());
        next >= 0 && std::holds_alternative<AddOp>(graph_.node(next).op) && graph_.node(next).inputs.size() == 2) {
      chain.push_back(next);
    }
    if (const NodeId next = activated ? -1 : OnlyReader(chain.back());
        next >= 0 && std::holds_alternative<ActivationOp>(graph_.node(next).op)) {
      chain.push_back(next);
    }
    for (const NodeId member : chain) conv_of_[member] = id;
    chains_[id] = std::move(chain);
  }

  // The 1x1 convolution that alone reads the batch normalisation `id` and can do it first; else -1.
  NodeId NextPointwise(NodeId id) const {
    if (!std::holds_alternative<BatchNormOp>(graph_.node(id).op) || conv_of_[id] >= 0 || kept_[id] || readers_[id].size() != 1) return -1;
    const Node& reader = graph_.node(readers_[id][0]);
    const auto* conv = std::get_if<Conv2dOp>(&reader.op);
    const bool pointwise = conv != nullptr && conv->window.size == std::array{1, 1} && conv->window.stride == std::array{1, 1};
    return pointwise && !conv->epilogue.max_pool && reader.inputs[0] == Value{id, 0} ? readers_[id][0] : -1;
  }

  // A convolution with the batch normalisation that goes into it; any other node as it is.
  Node Normalised(Node node) const {
    if (!std::holds_alternative<Conv2dOp>(node.op) || goes_into_[node.inputs[0].node] < 0) return node;
    auto& conv = std::get<Conv2dOp>(node.op);
    const Node& norm = graph_.node(node.inputs[0].node);
    const auto& op = std::get<BatchNormOp>(norm.op);
    conv.normalise = {.epsilon = op.epsilon, .relu = op.relu};
    node.inputs[0] = norm.inputs[0];
    node.inputs.insert(node.inputs.end() - (conv.epilogue.add ? 1 : 0), norm.inputs.begin() + 1, norm.inputs.end());
    return node;
  }

  // The fused node stands where the last of the chain stood: by then all its inputs exist.
  void AddFused(NodeId id) {
    Node node = graph_.node(id);
    Epilogue& epilogue = std::get<Conv2dOp>(node.op).epilogue;
    NodeId before = id;
    for (const NodeId member : chains_[id]) {
      const Node& taken = graph_.node(member);
      if (const auto* norm = std::get_if<BatchNormOp>(&taken.op)) {
        epilogue.batch_norm = norm->epsilon;
        if (norm->relu) epilogue.activation = Activation::kRelu;
        node.inputs.insert(node.inputs.end(), taken.inputs.begin() + 1, taken.inputs.end());
      } else if (std::holds_alternative<AddOp>(taken.op)) {
        epilogue.add = true;
        node.inputs.push_back(taken.inputs[taken.inputs[0] == Value{before, 0} ? 1 : 0]);
      } else if (const auto* activation = std::get_if<ActivationOp>(&taken.op)) {
        epilogue.activation = activation->activation;
      }
      before = member;
    }
    Add(chains_[id].back(), Normalised(std::move(node)));
  }

  void Add(NodeId stands_for, Node node) {
    if (std::holds_alternative<DropoutOp>(node.op)) node.op = IdentityOp{};
    for (Value& input : node.inputs) input = copy_.At(input);
    for (ValueSpec& output : node.outputs) output.row_major = output.batched;
    copy_.Map(stands_for, copy_.Add(std::move(node)));
  }

  const Graph& graph_;
  GraphCopy copy_;
  const std::vector<std::vector<NodeId>> readers_;  // [node]
  std::vector<bool> kept_;                          // [node]: it is an output
  std::vector<NodeId> conv_of_;                     // [node]: the convolution that takes it in, or -1
  std::vector<NodeId> goes_into_;                   // [node]: the convolution that does it first, or -1
  std::map<NodeId, std::vector<NodeId>> chains_;    // by convolution: itself, then what it takes in
};

}  // namespace

Graph RewriteForInference(const Graph& forward) { return Rewriter(forward).Run(); }

}  // namespace trainyard::engine
