// The nodes of TensorBoard's graph page: a neutral list, made from the caller's graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct GraphSummaryNode {
  std::string name;  // unique; '/' makes scopes
  std::string op;
  std::vector<std::string> inputs;  // names of nodes
  std::vector<Shape> output_shapes;
  std::string device;
};

// A serialised tensorflow.GraphDef.
std::string SerializeGraph(std::span<const GraphSummaryNode> nodes);

}  // namespace trainyard::engine
