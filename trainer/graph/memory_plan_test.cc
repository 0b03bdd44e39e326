#include "trainer/graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

MemoryPlanRules PlainRules() {
  return {.bytes = [](const ValueSpec& spec) { return static_cast<size_t>(spec.shape.elements()) * SizeOf(spec.dtype); },
          .external = [](Value) { return false; },
          .alias = [](const Node& node) { return std::holds_alternative<ReshapeOp>(node.op) ? std::optional<int>(0) : std::nullopt; },
          .in_place = [](const Node& node, int) { return std::holds_alternative<AddOp>(node.op); }};
}

ValueSpec Vector(int64_t elements) { return {DType::kF32, {1, elements}, true}; }

// Nodes of every kind that matters to the plan: sources, aliases, in-place ops, ops with several
// outputs, some of them unread.
Graph RandomGraph(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](size_t limit) { return static_cast<int>(random() % limit); };
  Graph graph;
  std::vector<Value> values;
  for (int i = 0; i < 3; ++i) {
    values.push_back({graph.AddNode({"input" + std::to_string(i), InputOp{}, {}, {Vector(64 + below(3) * 64)}}), 0});
  }
  for (int i = 0; i < 40; ++i) {
    const Value x = values[below(values.size())];
    const ValueSpec spec = graph.spec(x);
    const std::string name = "node" + std::to_string(i);
    switch (below(4)) {
      case 0:
        values.push_back({graph.AddNode({name, ReshapeOp{}, {x}, {spec}}), 0});
        break;
      case 1: {
        Value y = values[below(values.size())];
        if (graph.spec(y) != spec) y = x;
        values.push_back({graph.AddNode({name, AddOp{}, {x, y}, {spec}}), 0});
        break;
      }
      default: {
        const NodeId id = graph.AddNode({name, MaxPoolOp{}, {x, values[below(values.size())]}, {Vector(64 + below(5) * 64), Vector(32)}});
        values.push_back({id, 0});
        if (below(2) == 0) values.push_back({id, 1});
      }
    }
  }
  graph.SetOutput("last", values.back());
  graph.SetOutput("some", values[below(values.size())]);
  return graph;
}

// Runs the plan with a marker for each value: each reader must find the marker of its writer,
// unless that value was overwritten in place.
TEST(PlanMemory, NoValueIsOverwrittenBeforeItsLastReader) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Graph graph = RandomGraph(seed);
    const MemoryPlan plan = PlanMemory(graph, PlainRules());
    std::vector<int> lines((plan.arena_bytes + kBufferAlignment - 1) / kBufferAlignment, -1);  // who wrote to each
    const auto lines_of = [&](const ValueStorage& placement) {
      return std::span(lines).subspan(placement.offset / kBufferAlignment, (placement.bytes + kBufferAlignment - 1) / kBufferAlignment);
    };
    std::map<Value, int> content;  // what each value holds: a marker of its own, or that of what it aliases
    int markers = 0;
    const auto write = [&](Value value) {
      const ValueStorage& placement = plan.at(value);
      if (placement.kind == ValueStorage::Kind::kUnused) return;
      ASSERT_EQ(placement.offset % kBufferAlignment, 0u);
      ASSERT_LE(placement.offset + placement.bytes, plan.arena_bytes);
      content[value] = markers++;
      std::ranges::fill(lines_of(placement), content[value]);
    };
    const auto expect_intact = [&](Value value, const std::string& reader) {
      const ValueStorage& placement = plan.at(value);
      ASSERT_NE(placement.kind, ValueStorage::Kind::kUnused) << reader;
      for (const int line : lines_of(placement)) ASSERT_EQ(line, content[value]) << "seed " << seed << ", read by " << reader;
    };
    for (NodeId id : graph.inputs()) write({id, 0});
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
      const Node& node = graph.node(id);
      if (std::holds_alternative<InputOp>(node.op)) continue;
      for (const Value& input : node.inputs) expect_intact(input, node.name);
      if (std::holds_alternative<ReshapeOp>(node.op)) {
        ASSERT_EQ(plan.at({id, 0}).offset, plan.at(node.inputs[0]).offset);
        content[{id, 0}] = content[node.inputs[0]];
        continue;
      }
      for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) write({id, output});
      // Only in-place ops may have written over what they read.
      if (std::holds_alternative<AddOp>(node.op)) continue;
      for (const Value& input : node.inputs) expect_intact(input, node.name + " (its own outputs overlap)");
    }
    for (const auto& [name, value] : graph.outputs()) expect_intact(value, name);
  }
}

Graph Chain(int length) {
  Graph graph;
  Value x{graph.AddNode({"x", InputOp{}, {}, {Vector(1024)}}), 0};
  for (int i = 0; i < length; ++i) x = {graph.AddNode({"n" + std::to_string(i), SoftmaxOp{}, {x}, {Vector(1024)}}), 0};
  graph.SetOutput("y", x);
  return graph;
}

TEST(PlanMemory, AChainNeedsTwoBuffersHoweverLongItIs) {
  const MemoryPlan plan = PlanMemory(Chain(20), PlainRules());
  EXPECT_EQ(plan.arena_bytes, 2 * 4096u);
  EXPECT_EQ(plan.unshared_bytes, 21 * 4096u);
}

TEST(PlanMemory, AChainInPlaceNeedsOne) {
  MemoryPlanRules rules = PlainRules();
  rules.in_place = [](const Node&, int) { return true; };
  EXPECT_EQ(PlanMemory(Chain(20), rules).arena_bytes, 4096u);
}

TEST(PlanMemory, NothingIsOverwrittenThatTheNodeAlsoReadsInAnotherPlace) {
  MemoryPlanRules rules = PlainRules();
  rules.in_place = [](const Node& node, int i) { return std::holds_alternative<BiasOp>(node.op) && i == 0; };
  Graph graph;
  const NodeId x = graph.AddNode({"x", InputOp{}, {}, {Vector(64)}});
  const NodeId twice = graph.AddNode({"twice", BiasOp{}, {{x, 0}, {x, 0}}, {Vector(64)}});
  const NodeId once = graph.AddNode({"once", BiasOp{}, {{twice, 0}, {x, 0}}, {Vector(64)}});
  graph.SetOutput("y", {once, 0});
  const MemoryPlan plan = PlanMemory(graph, rules);
  EXPECT_NE(plan.at({twice, 0}).offset, plan.at({x, 0}).offset);
  EXPECT_EQ(plan.at({once, 0}).offset, plan.at({twice, 0}).offset);
}

TEST(PlanMemory, ExternalValuesTakeNoBytesAndAreNotOverwritten) {
  MemoryPlanRules rules = PlainRules();
  rules.in_place = [](const Node&, int) { return true; };
  rules.external = [](Value value) { return value.node <= 1; };
  const MemoryPlan plan = PlanMemory(Chain(2), rules);
  EXPECT_EQ(plan.at({0, 0}).kind, ValueStorage::Kind::kExternal);
  EXPECT_EQ(plan.at({2, 0}).kind, ValueStorage::Kind::kArena);
  EXPECT_EQ(plan.arena_bytes, 4096u);
}

TEST(PlanMemory, IsTheSameForTheSameGraph) {
  const MemoryPlan a = PlanMemory(RandomGraph(5), PlainRules());
  const MemoryPlan b = PlanMemory(RandomGraph(5), PlainRules());
  for (size_t node = 0; node < a.placements.size(); ++node) {
    for (size_t output = 0; output < a.placements[node].size(); ++output) {
      EXPECT_EQ(a.placements[node][output].offset, b.placements[node][output].offset);
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
