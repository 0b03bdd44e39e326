#include "trainer/backend/cpu/join_add.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"

namespace trainyard::engine {
namespace {

// What becomes one node.
struct ResidualSum {
  NodeId conv = -1, add = -1;
  NodeId activation = -1;  // -1: there is none

  NodeId last() const { return activation < 0 ? add : activation; }
};

class AddJoiner {
 public:
  explicit AddJoiner(const Graph& graph)
      : graph_(graph), copy_(graph), readers_(ReadersOf(graph)), kept_(graph.nodes().size()), joint_of_(graph.nodes().size(), -1) {
    for (const Value& value : NamedValues(graph_)) kept_[value.node] = true;
  }

  Graph Run() && {
    for (NodeId id = 0; id < Nodes(); ++id) Find(id);
    for (NodeId id = 0; id < Nodes(); ++id) {
      if (joint_of_[id] < 0) {
        copy_.Copy(id);
      } else if (joints_[joint_of_[id]].last() == id) {
        Add(joints_[joint_of_[id]]);
      }
    }
    return std::move(copy_).Finish();
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }

  // The one node that reads what `id` leaves, or -1.
  NodeId OnlyReader(NodeId id) const { return readers_[id].size() == 1 && !kept_[id] ? readers_[id][0] : -1; }

  // Whether the convolution at `id` can take in the sum that is its one reader.
  bool Fits(NodeId id) const {
    const auto* conv = std::get_if<Conv2dOp>(&graph_.node(id).op);
    return conv != nullptr && conv->epilogue == Epilogue{.bias = conv->epilogue.bias} && !conv->normalise && OnlyReader(id) >= 0;
  }

  void Find(NodeId add) {
    const Node& node = graph_.node(add);
    if (!std::holds_alternative<AddOp>(node.op) || node.inputs.size() != 2) return;
    const NodeId later = std::max(node.inputs[0].node, node.inputs[1].node);
    const NodeId earlier = std::min(node.inputs[0].node, node.inputs[1].node);
    ResidualSum joint{.conv = Fits(later) ? later : earlier, .add = add};
    if (!Fits(joint.conv)) return;
    const NodeId reader = OnlyReader(add);
    if (reader >= 0 && std::holds_alternative<ActivationOp>(graph_.node(reader).op)) joint.activation = reader;
    for (const NodeId member : {joint.conv, joint.add, joint.activation}) {
      if (member >= 0) joint_of_[member] = static_cast<int>(joints_.size());
    }
    joints_.push_back(joint);
  }

  // The joint stands where its last node stood: by then all its inputs exist.
  void Add(const ResidualSum& joint) {
    Node node = graph_.node(joint.conv);
    const std::vector<Value>& terms = graph_.node(joint.add).inputs;
    node.inputs.push_back(terms[terms[0].node == joint.conv ? 1 : 0]);
    for (Value& input : node.inputs) input = copy_.At(input);
    Epilogue& epilogue = std::get<Conv2dOp>(node.op).epilogue;
    epilogue.add = true;
    if (joint.activation >= 0) epilogue.activation = std::get<ActivationOp>(graph_.node(joint.activation).op).activation;
    copy_.Map(joint.last(), copy_.Add(std::move(node)));
  }

  const Graph& graph_;
  GraphCopy copy_;
  const std::vector<std::vector<NodeId>> readers_;  // [node]
  std::vector<bool> kept_;                          // [node]: read by others than nodes
  std::vector<int> joint_of_;                       // [node]: into joints_, or -1
  std::vector<ResidualSum> joints_;
};

}  // namespace

Graph JoinAdds(const Graph& graph) { return AddJoiner(graph).Run(); }

}  // namespace trainyard::engine
