// Where every value of a graph lies in one arena. Values whose lives do not overlap may share
// bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainer/graph/graph.h"

namespace trainyard::engine {

// The storage of a value.
struct ValueStorage {
  enum class Kind {
    kArena,     // `offset` bytes into the arena
    kExternal,  // not planned: a parameter, a gradient written where the caller wants it
    kUnused,    // nothing reads it: a second output that no node consumes
  };
  Kind kind = Kind::kUnused;
  size_t offset = 0;
  size_t bytes = 0;
  Value storage;  // the value whose memory this is: itself, or the value that it aliases or overwrites
};

struct MemoryPlan {
  std::vector<std::vector<ValueStorage>> placements;  // [node][output]
  size_t arena_bytes = 0;
  size_t unshared_bytes = 0;  // of the same values without sharing

  const ValueStorage& at(Value value) const { return placements[value.node][value.output]; }
};

struct MemoryPlanRules {
  // Size of a value in the backend's layout.
  std::function<size_t(const ValueSpec&)> bytes;
  // True for values that live elsewhere.
  std::function<bool(Value)> external;
  // The input that node's output 0 shares memory with always (reshape), or none.
  std::function<std::optional<int>(const Node&)> alias;
  // True when output 0 of the node may be written over its input i, element by element.
  std::function<bool(const Node&, int)> in_place;
};

// A value lives from its node to its last reader. Inputs of the graph live from the start; named
// outputs, parameter results and next states live to the end. Offsets are multiples of
// kBufferAlignment. Deterministic: the largest value first, each at the lowest free offset (greedy
// by size; Pisarchyk, Lee 2020, "Efficient Memory Management for Deep Neural Net Inference").
MemoryPlan PlanMemory(const Graph& graph, const MemoryPlanRules& rules);

}  // namespace trainyard::engine
