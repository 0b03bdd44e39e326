#include "trainer/backend/cpu/join_cross_entropy.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"
#include "trainer/ops/dense_cross_entropy.h"

namespace trainyard::engine {
namespace {

using Outputs = DenseCrossEntropyOutputs;

// What becomes one node.
struct Joint {
  NodeId dense = -1, loss = -1;
  NodeId correct = -1;  // -1: there is none
};

class Joiner {
 public:
  Joiner(const Graph& graph, int64_t least_classes)
      : graph_(graph),
        least_classes_(least_classes),
        copy_(graph),
        readers_(ReadersOf(graph)),
        kept_(NamedValues(graph)),
        joint_of_(graph.nodes().size(), -1) {}

  Graph Run() {
    for (NodeId id = 0; id < Nodes(); ++id) {
      const std::optional<Joint> joint = JointOf(id);
      if (!joint) continue;
      for (const NodeId member : {joint->dense, joint->loss, joint->correct}) {
        if (member >= 0) joint_of_[member] = static_cast<int>(joints_.size());
      }
      joints_.push_back(*joint);
      made_.push_back(-1);
    }
    for (NodeId id = 0; id < Nodes(); ++id) {
      if (joint_of_[id] < 0) {
        copy_.Copy(id);
      } else if (joints_[joint_of_[id]].dense != id) {
        CopyJoint(id);
      }
    }
    return std::move(copy_).Finish();
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }
  bool IsKept(Value value) const { return std::ranges::find(kept_, value) != kept_.end(); }

  bool Fits(NodeId dense) const {
    const Node& node = graph_.node(dense);
    const auto* op = std::get_if<DenseOp>(&node.op);
    const ValueSpec& scores = node.outputs[0];
    return op != nullptr && op->epilogue.activation == Activation::kIdentity && scores.row_major && !IsKept({dense, 0}) &&
           scores.shape[-1] >= least_classes_;
  }

  std::optional<Joint> JointOf(NodeId dense) const {
    if (!Fits(dense)) return std::nullopt;
    Joint joint{.dense = dense};
    for (const NodeId reader : readers_[dense]) {
      const Op& op = graph_.node(reader).op;
      NodeId* place = nullptr;
      if (std::holds_alternative<SoftmaxCrossEntropyOp>(op)) place = &joint.loss;
      if (std::holds_alternative<CorrectCountOp>(op)) place = &joint.correct;
      if (place == nullptr || *place >= 0) return std::nullopt;
      *place = reader;
    }
    if (joint.loss < 0) return std::nullopt;
    if (joint.correct >= 0 && LabelsOf(joint.correct) != LabelsOf(joint.loss)) return std::nullopt;
    const Value probabilities{joint.loss, 1};
    const bool read = std::ranges::any_of(readers_[joint.loss],
                                          [&](NodeId reader) { return std::ranges::count(graph_.node(reader).inputs, probabilities) > 0; });
    return read || IsKept(probabilities) ? std::nullopt : std::optional(joint);
  }

  Value LabelsOf(NodeId id) const { return graph_.node(id).inputs[1]; }

  // The joint stands where the first node that reads the scores stood: by then its labels exist.
  void CopyJoint(NodeId id) {
    const Joint& joint = joints_[joint_of_[id]];
    NodeId& made = made_[joint_of_[id]];
    if (made < 0) made = Add(joint);
    if (id == joint.loss) {
      copy_.Map(id, made);
    } else {
      const Node& correct = graph_.node(id);
      copy_.Map(id, copy_.Add({correct.name, IdentityOp{}, {{made, Outputs::kCorrect}}, correct.outputs}));
    }
  }

  NodeId Add(const Joint& joint) {
    Node node = graph_.node(joint.dense);
    const ValueSpec scores = node.outputs[0];
    node.op = DenseCrossEntropyOp{std::get<DenseOp>(node.op).epilogue.bias};
    node.inputs.push_back(LabelsOf(joint.loss));
    for (Value& input : node.inputs) input = copy_.At(input);
    ValueSpec factors = scores;
    factors.shape = graph_.spec(LabelsOf(joint.loss)).shape;
    node.outputs = {ValueSpec{}, scores, factors, ValueSpec{}};
    return copy_.Add(std::move(node));
  }

  const Graph& graph_;
  const int64_t least_classes_;
  GraphCopy copy_;
  const std::vector<std::vector<NodeId>> readers_;  // [node]
  const std::vector<Value> kept_;                   // read by others than nodes
  std::vector<int> joint_of_;                       // [node]: into joints_, or -1
  std::vector<Joint> joints_;
  std::vector<NodeId> made_;  // [joint]: its new node, once there is one
};

}  // namespace

Graph JoinCrossEntropy(const Graph& graph, int64_t least_classes) { return Joiner(graph, least_classes).Run(); }

}  // namespace trainyard::engine
