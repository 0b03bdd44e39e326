#include "trainer/backend/feed_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// Equal when extents of 1 after the batch are left out: [128, 28, 28] is [128, 28, 28, 1].
bool SameUpToOnes(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0 || a[0] != b[0]) return false;
  int i = 1;
  int j = 1;
  while (true) {
    while (i < a.rank() && a[i] == 1) ++i;
    while (j < b.rank() && b[j] == 1) ++j;
    if (i == a.rank() || j == b.rank()) return i == a.rank() && j == b.rank();
    if (a[i++] != b[j++]) return false;
  }
}

bool Accepts(const ValueSpec& spec, DType fed) { return fed == spec.dtype || (spec.dtype == DType::kF32 && fed == DType::kU8); }

absl::Status CheckRange(std::string_view name, const Tensor& tensor, int32_t limit) {
  if (limit <= 0 || tensor.dtype != DType::kI32) return absl::OkStatus();
  const std::span<const int32_t> values = tensor.values<const int32_t>();
  const auto bad = std::ranges::find_if(values, [&](int32_t value) { return value < 0 || value >= limit; });
  if (bad == values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("input '{}': element {} is {}, expected 0 to {}", name, bad - values.begin(), *bad, limit - 1));
}

absl::Status CheckFeed(const Node& node, const Tensor& tensor) {
  const ValueSpec& spec = node.outputs[0];
  if (!Accepts(spec, tensor.dtype)) {
    return absl::InvalidArgumentError(fmt::format("input '{}': fed with {}, expected {}", node.name, DTypeName(tensor.dtype),
                                                  spec.dtype == DType::kF32 ? "F32 or U8" : DTypeName(spec.dtype)));
  }
  if (!SameUpToOnes(spec.shape, tensor.shape)) {
    return absl::InvalidArgumentError(
        fmt::format("input '{}': fed with shape {}, expected {}", node.name, tensor.shape.ToString(), spec.shape.ToString()));
  }
  return CheckRange(node.name, tensor, std::get<InputOp>(node.op).limit);
}

}  // namespace

absl::Status MatchFeeds(const Graph& graph, std::span<const Feed> feeds, std::span<const Tensor*> matched) {
  std::ranges::fill(matched, nullptr);
  for (const Feed& feed : feeds) {
    const auto found = std::ranges::find_if(graph.inputs(), [&](NodeId id) { return graph.node(id).name == feed.name; });
    if (found == graph.inputs().end()) return absl::InvalidArgumentError(fmt::format("the graph has no input '{}'", feed.name));
    const Tensor*& slot = matched[static_cast<size_t>(found - graph.inputs().begin())];
    if (slot != nullptr) return absl::InvalidArgumentError(fmt::format("input '{}' is fed twice", feed.name));
    TY_RETURN_IF_ERROR(CheckFeed(graph.node(*found), feed.tensor));
    slot = &feed.tensor;
  }
  const auto missing = std::ranges::find(matched, nullptr);
  if (missing == matched.end()) return absl::OkStatus();
  const Node& node = graph.node(graph.inputs()[static_cast<size_t>(missing - matched.begin())]);
  return absl::InvalidArgumentError(fmt::format("input '{}' is not fed, expected {}", node.name, node.outputs[0].shape.ToString()));
}

}  // namespace trainyard::engine
