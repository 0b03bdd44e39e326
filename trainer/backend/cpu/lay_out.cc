#include "trainer/backend/cpu/lay_out.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"
#include "trainer/graph/overloaded.h"

namespace trainyard::engine {
namespace {

// Where an op always works: true in rows, false in panels, nothing: as its first input lies.
std::optional<bool> AlwaysInRows(const Op& op) {
  return std::visit(Overloaded{
                        [](const StateOp&) { return std::optional(true); },
                        [](const EmbeddingOp&) { return std::optional(true); },
                        [](const RecurrentOp&) { return std::optional(true); },
                        [](const Conv2dOp&) { return std::optional(false); },
                        [](const MaxPoolOp&) { return std::optional(false); },
                        [](const AvgPoolOp&) { return std::optional(false); },
                        [](const BatchNormOp&) { return std::optional(false); },
                        [](const auto&) { return std::optional<bool>(); },
                    },
                    op);
}

class Layouts {
 public:
  explicit Layouts(const Graph& graph)
      : graph_(graph), copy_(graph), readers_(ReadersOf(graph)), in_rows_(graph.nodes().size()), turned_(graph.nodes().size()) {}

  Graph Run() && {
    for (NodeId id = 0; id < Nodes(); ++id) in_rows_[id] = WorksInRows(id);
    for (const NodeId id : graph_.inputs()) {
      in_rows_[id] = !readers_[id].empty() && std::ranges::all_of(readers_[id], [&](NodeId reader) { return in_rows_[reader]; });
    }
    for (NodeId id = 0; id < Nodes(); ++id) Copy(id);
    return std::move(copy_).Finish();
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }

  bool WorksInRows(NodeId id) const {
    const Node& node = graph_.node(id);
    if (const std::optional<bool> always = AlwaysInRows(node.op)) return *always;
    if (MakesRecurrentInput(id)) return true;
    return !node.inputs.empty() && in_rows_[node.inputs[0].node];
  }

  // A product, and its bias where that is a node of its own, behind which only recurrent layers
  // stand.
  bool MakesRecurrentInput(NodeId id) const {
    const Op& op = graph_.node(id).op;
    if (!std::holds_alternative<DenseOp>(op) && !std::holds_alternative<BiasOp>(op)) return false;
    return !readers_[id].empty() && std::ranges::all_of(readers_[id], [&](NodeId reader) {
      const Node& node = graph_.node(reader);
      if (std::holds_alternative<BiasOp>(node.op)) return MakesRecurrentInput(reader);
      return std::holds_alternative<RecurrentOp>(node.op) && node.inputs[0].node == id;
    });
  }

  void Copy(NodeId id) {
    Node node = graph_.node(id);
    for (Value& input : node.inputs) input = InLayout(input, in_rows_[id]);
    for (ValueSpec& output : node.outputs) output.row_major = output.batched && in_rows_[id];
    copy_.Map(id, copy_.Add(std::move(node)));
  }

  // The new value for `old` as a node that works in rows, or in panels, reads it.
  Value InLayout(Value old, bool in_rows) {
    const ValueSpec& spec = graph_.spec(old);
    if (!spec.batched || in_rows_[old.node] == in_rows) return copy_.At(old);
    std::map<int, Value>& turned = turned_[old.node];
    if (const auto found = turned.find(old.output); found != turned.end()) return found->second;
    ValueSpec other = spec;
    other.row_major = in_rows;
    std::string name = graph_.node(old.node).name + (in_rows ? "/rows" : "/panels");
    if (old.output > 0) name += std::to_string(old.output);
    return turned[old.output] = {copy_.Add({std::move(name), RelayoutOp{}, {copy_.At(old)}, {other}}), 0};
  }

  const Graph& graph_;
  GraphCopy copy_;
  const std::vector<std::vector<NodeId>> readers_;  // [node]
  std::vector<bool> in_rows_;                       // [node]: where it works, and its batched outputs lie
  std::vector<std::map<int, Value>> turned_;        // [node], by output: the new value that lies the other way
};

}  // namespace

Graph LayOut(const Graph& graph) { return Layouts(graph).Run(); }

}  // namespace trainyard::engine
