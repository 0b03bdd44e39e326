#include "trainer/backend/cpu/narrow_rows.h"

#include <set>
#include <utility>
#include <vector>

#include "trainer/graph/graph_copy.h"
#include "trainer/ops/dense_cross_entropy.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

// The output of a node that gradients alone read and that may be narrow; -1: none.
int OutputForGradients(const Op& op) {
  if (std::holds_alternative<DenseCrossEntropyOp>(op)) return DenseCrossEntropyOutputs::kTerms;
  const auto* recurrent = std::get_if<RecurrentOp>(&op);
  return recurrent != nullptr && recurrent->cell == Cell::kLstm ? RecurrentOutputs::kGates : -1;
}

// What the graph names or a node of it reads.
std::set<Value> ReadValues(const Graph& graph) {
  const std::vector<Value> named = NamedValues(graph);
  std::set<Value> read(named.begin(), named.end());
  for (const Node& node : graph.nodes()) read.insert(node.inputs.begin(), node.inputs.end());
  return read;
}

}  // namespace

Graph NarrowRows(const Graph& graph) {
  GraphCopy copy(graph);
  const std::set<Value> read = ReadValues(graph);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    Node node = graph.node(id);
    for (Value& input : node.inputs) input = copy.At(input);
    const int output = OutputForGradients(node.op);
    if (output >= 0 && !read.contains({id, output})) node.outputs[output].narrow = node.outputs[output].row_major;
    copy.Map(id, copy.Add(std::move(node)));
  }
  return std::move(copy).Finish();
}

}  // namespace trainyard::engine
