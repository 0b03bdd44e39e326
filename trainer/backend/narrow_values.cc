#include "trainer/backend/narrow_values.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"
#include "trainer/graph/window.h"
#include "trainer/ops/rules.h"

namespace trainyard::engine {
namespace {

bool IsConvolution(const Op& op) { return std::holds_alternative<Conv2dOp>(op); }

class Narrowing {
 public:
  Narrowing(const Graph& graph, NarrowReach reach)
      : graph_(graph),
        to_dense_(reach == NarrowReach::kDense),
        copy_(graph),
        readers_(ReadersOf(graph)),
        kept_(graph.nodes().size()),
        narrow_(graph.nodes().size()),
        other_(graph.nodes().size()) {
    for (const Value& value : NamedValues(graph)) {
      if (value.output == 0) kept_[value.node] = true;
    }
  }

  Graph Run() && {
    for (NodeId id = 0; id < Nodes(); ++id) narrow_[id] = IsNarrow(id);
    for (NodeId id = 0; id < Nodes(); ++id) Copy(id);
    return std::move(copy_).Finish();
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }

  // Ops that take their first input in either way. What a convolution adds to its results lies as
  // these do.
  bool TakesEither(const Op& op) const { return IsConvolution(op) || (to_dense_ && std::holds_alternative<DenseOp>(op)); }

  // Ops whose values are all held in one way.
  bool WorksOnOneKind(const Op& op) const {
    if (to_dense_ && (std::holds_alternative<DropoutOp>(op) || AliasedInput(op).has_value())) return true;
    return std::holds_alternative<BatchNormOp>(op) || std::holds_alternative<AddOp>(op) || std::holds_alternative<ActivationOp>(op);
  }

  static bool IsActivation(const ValueSpec& spec) { return spec.batched && !spec.row_major && spec.dtype == DType::kF32; }

  bool IsNarrow(NodeId id) const {
    const Node& node = graph_.node(id);
    const ValueSpec& spec = node.outputs[0];
    if (kept_[id] || !IsActivation(spec) || spec.shape[-1] % 2 != 0) return false;
    const auto* conv = std::get_if<Conv2dOp>(&node.op);
    if (conv != nullptr && !conv->epilogue.add) {
      if (conv->epilogue.max_pool && !(to_dense_ && TilesImage(*conv->epilogue.max_pool))) return false;
      return std::ranges::all_of(
          readers_[id], [&](NodeId reader) { return TakesEither(graph_.node(reader).op) || WorksOnOneKind(graph_.node(reader).op); });
    }
    const size_t first = conv != nullptr ? node.inputs.size() - 1 : 0;  // what must be of one kind with y
    return (conv != nullptr || WorksOnOneKind(node.op)) &&
           std::all_of(node.inputs.begin() + first, node.inputs.end(),
                       [&](const Value& input) { return !graph_.spec(input).batched || (input.output == 0 && narrow_[input.node]); });
  }

  // Where y itself is not: no pixel before the pool gets the gradients of two windows.
  bool IsNarrowBeforePool(const std::optional<Window>& pool, const ValueSpec& y) const {
    return !to_dense_ && pool.has_value() && TilesImage(*pool) && IsActivation(y) && y.shape[-1] % 2 == 0;
  }

  void Copy(NodeId id) {
    Node node = graph_.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      Value& input = node.inputs[i];
      const bool turn = input.output == 0 && narrow_[input.node] != narrow_[id] && IsActivation(graph_.spec(input));
      input = turn && !(i == 0 && TakesEither(node.op)) ? Turned(input) : copy_.At(input);
    }
    node.outputs[0].narrow = narrow_[id];
    if (auto* conv = std::get_if<Conv2dOp>(&node.op))
      conv->epilogue.narrow_before_pool = IsNarrowBeforePool(conv->epilogue.max_pool, node.outputs[0]);
    copy_.Map(id, copy_.Add(std::move(node)));
  }

  // The new value for `old`, held in the other way.
  Value Turned(Value old) {
    Value& turned = other_[old.node];
    if (turned.valid()) return turned;
    ValueSpec spec = graph_.spec(old);
    spec.narrow = !narrow_[old.node];
    const std::string name = graph_.node(old.node).name + (spec.narrow ? "/narrow" : "/f32");
    return turned = {copy_.Add({name, RelayoutOp{}, {copy_.At(old)}, {spec}}), 0};
  }

  const Graph& graph_;
  const bool to_dense_;
  GraphCopy copy_;
  const std::vector<std::vector<NodeId>> readers_;  // [node]
  std::vector<bool> kept_;                          // its first output is one of the graph's
  std::vector<bool> narrow_;                        // [node]: its first output is narrow
  std::vector<Value> other_;                        // [node]: its first output held in the other way, once there is one
};

}  // namespace

Graph NarrowValues(const Graph& graph, NarrowReach reach) { return Narrowing(graph, reach).Run(); }

}  // namespace trainyard::engine
