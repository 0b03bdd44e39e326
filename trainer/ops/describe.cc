#include "trainer/ops/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "trainer/ops/rules.h"

namespace trainyard::engine {
namespace {

constexpr int kColumns = 4;
using Row = std::array<std::string, kColumns>;

// Columns as wide as their widest cell; the last one to the right.
void AppendTable(const std::vector<Row>& rows, std::string& text) {
  std::array<size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (int column = 0; column < kColumns; ++column) widths[column] = std::max(widths[column], row[column].size());
  }
  for (const Row& row : rows) {
    fmt::format_to(std::back_inserter(text), "{:<{}}  {:<{}}  {:<{}}  {:>{}}\n", row[0], widths[0], row[1], widths[1], row[2], widths[2],
                   row[3], widths[3]);
  }
}

std::string OpColumn(const Node& node) {
  const std::string attributes = OpText(node.op);
  return attributes.empty() ? std::string(OpName(node.op)) : fmt::format("{} {}", OpName(node.op), attributes);
}

std::string Mebibytes(size_t bytes) { return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

std::string DescribeGraph(const Graph& graph, const MemoryPlan& plan) {
  std::vector<Row> nodes = {{"NODE", "OP", "OUTPUT", "MFLOP"}};
  int64_t flops = 0;
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const Node& node = graph.node(id);
    if (std::holds_alternative<ParameterOp>(node.op)) continue;
    const int64_t node_flops = Flops(graph, id);
    flops += node_flops;
    nodes.push_back(
        {node.name, OpColumn(node), node.outputs[0].shape.ToString(), fmt::format("{:.3f}", static_cast<double>(node_flops) / 1e6)});
  }
  std::vector<Row> parameters = {{"KEY", "PARAMETER", "SHAPE", "ELEMENTS"}};
  int64_t elements = 0;
  for (const ParameterSpec& parameter : graph.parameters()) {
    elements += parameter.shape.elements();
    parameters.push_back({fmt::format("{}", parameters.size() - 1), parameter.name + (parameter.trainable ? "" : " (not trainable)"),
                          parameter.shape.ToString(), fmt::format("{}", parameter.shape.elements())});
  }
  std::string text;
  AppendTable(nodes, text);
  text += "\n";
  AppendTable(parameters, text);
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "\nparameters  {} elements, {}\n", elements, Mebibytes(static_cast<size_t>(elements) * sizeof(float)));
  fmt::format_to(out, "one step    {} nodes, {:.3f} MFLOP\n", graph.nodes().size(), static_cast<double>(flops) / 1e6);
  fmt::format_to(out, "memory      {} in one arena ({} without sharing)\n", Mebibytes(plan.arena_bytes), Mebibytes(plan.unshared_bytes));
  return text;
}

}  // namespace trainyard::engine
