#include "trainer/graph/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {
namespace {

constexpr NodeId kBeforeAll = -1;
constexpr NodeId kUnread = -2;

// One piece of memory: a value and those that share it.
struct Storage {
  Value value;
  NodeId first = 0;
  NodeId last = kUnread;
  size_t bytes = 0;
  size_t offset = 0;
  bool external = false;
};

class Planner {
 public:
  Planner(const Graph& graph, const MemoryPlanRules& rules) : graph_(graph), rules_(rules) {
    MakeStorages();
    FindLastReaders();
    RunInPlace();
    Place();
  }

  MemoryPlan Plan() const {
    MemoryPlan plan;
    plan.arena_bytes = arena_bytes_;
    for (NodeId id = 0; id < Nodes(); ++id) {
      std::vector<ValueStorage>& row = plan.placements.emplace_back();
      for (int output = 0; output < static_cast<int>(graph_.node(id).outputs.size()); ++output) {
        const Storage& storage = storages_[storage_of_[id][output]];
        ValueStorage placement{.storage = storage.value};
        if (storage.external) {
          placement.kind = ValueStorage::Kind::kExternal;
        } else if (storage.last != kUnread) {
          placement.kind = ValueStorage::Kind::kArena;
          placement.offset = storage.offset;
          placement.bytes = rules_.bytes(graph_.node(id).outputs[output]);
          if (!IsAlias(id, output)) plan.unshared_bytes += Aligned(placement.bytes);
        }
        row.push_back(placement);
      }
    }
    return plan;
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes().size()); }
  bool IsAlias(NodeId id, int output) const { return output == 0 && rules_.alias(graph_.node(id)).has_value(); }
  int& StorageOf(Value value) { return storage_of_[value.node][value.output]; }

  void MakeStorages() {
    for (NodeId id = 0; id < Nodes(); ++id) {
      const Node& node = graph_.node(id);
      std::vector<int>& row = storage_of_.emplace_back();
      for (int output = 0; output < static_cast<int>(node.outputs.size()); ++output) {
        if (IsAlias(id, output)) {
          row.push_back(StorageOf(node.inputs[*rules_.alias(node)]));
          continue;
        }
        row.push_back(static_cast<int>(storages_.size()));
        const Value value{id, output};
        storages_.push_back({.value = value,
                             .first = IsSource(node.op) ? kBeforeAll : id,
                             .last = output == 0 ? id : kUnread,
                             .bytes = rules_.bytes(node.outputs[output]),
                             .external = rules_.external(value)});
      }
    }
  }

  void FindLastReaders() {
    const auto read = [&](Value value, NodeId reader) {
      Storage& storage = storages_[StorageOf(value)];
      storage.last = std::max(storage.last, reader);
    };
    for (NodeId id = 0; id < Nodes(); ++id) {
      for (const Value& input : graph_.node(id).inputs) read(input, id);
    }
    for (const auto& [name, value] : graph_.outputs()) read(value, Nodes());
    for (const ParameterResult& result : graph_.results()) read(result.value, Nodes());
    for (const Value& next : graph_.next_states()) {
      if (next.valid()) read(next, Nodes());
    }
  }

  // Lets output 0 take over the memory of an input that nobody reads later.
  void RunInPlace() {
    for (NodeId id = 0; id < Nodes(); ++id) {
      const Node& node = graph_.node(id);
      const int mine = storage_of_[id][0];
      if (IsAlias(id, 0) || storages_[mine].external) continue;
      for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
        const int theirs = StorageOf(node.inputs[i]);
        if (!rules_.in_place(node, i) || !MayTake(node, theirs, id, storages_[mine].bytes)) continue;
        storages_[theirs].last = storages_[mine].last;
        for (std::vector<int>& row : storage_of_) std::replace(row.begin(), row.end(), mine, theirs);
        storages_[mine].bytes = 0;
        break;
      }
    }
  }

  // Every input of the node that lies in this storage must allow it, and nothing may read it later.
  bool MayTake(const Node& node, int storage, NodeId id, size_t bytes) {
    if (storages_[storage].external || storages_[storage].last != id || storages_[storage].bytes != bytes) return false;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      if (StorageOf(node.inputs[i]) == storage && !rules_.in_place(node, i)) return false;
    }
    return true;
  }

  void Place() {
    std::vector<int> order(storages_.size());
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](int s) { return storages_[s].external || storages_[s].last == kUnread || storages_[s].bytes == 0; });
    // Ties by index, so that the plan is the same on every machine.
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::pair(storages_[b].bytes, a) < std::pair(storages_[a].bytes, b); });
    std::vector<int> placed;  // by offset
    for (int s : order) {
      Storage& storage = storages_[s];
      size_t offset = 0;
      for (int other : placed) {
        const Storage& o = storages_[other];
        if (o.first > storage.last || o.last < storage.first) continue;
        if (o.offset >= offset + Aligned(storage.bytes)) break;
        offset = std::max(offset, o.offset + Aligned(o.bytes));
      }
      storage.offset = offset;
      arena_bytes_ = std::max(arena_bytes_, offset + Aligned(storage.bytes));
      placed.insert(
          std::upper_bound(placed.begin(), placed.end(), s, [&](int a, int b) { return storages_[a].offset < storages_[b].offset; }), s);
    }
  }

  const Graph& graph_;
  const MemoryPlanRules& rules_;
  std::vector<Storage> storages_;
  std::vector<std::vector<int>> storage_of_;  // [node][output]
  size_t arena_bytes_ = 0;
};

}  // namespace

MemoryPlan PlanMemory(const Graph& graph, const MemoryPlanRules& rules) { return Planner(graph, rules).Plan(); }

}  // namespace trainyard::engine
