#include "trainer/ops/embedding.h"

#include <fmt/format.h>

#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::StatusOr<ValueSpec> InferEmbedding(const ValueSpec& ids, const ValueSpec& table) {
  if (ids.dtype != DType::kI32 || !ids.batched || ids.shape.rank() >= Shape::kMaxRank) {
    return absl::InvalidArgumentError(
        fmt::format("ids are {} of shape {}, expected I32 [batch, ..]", DTypeName(ids.dtype), ids.shape.ToString()));
  }
  const bool matrix = table.shape.rank() == 2;
  TY_RETURN_IF_ERROR(ExpectWeights("table", table, {matrix ? table.shape[0] : 0, matrix ? table.shape[1] : 0}, "[vocabulary, outputs]"));
  std::vector<int64_t> extents(ids.shape.extents().begin(), ids.shape.extents().end());
  extents.push_back(table.shape[1]);
  return ValueSpec{.shape = Shape(extents), .batched = true};
}

int64_t OpFlops(const EmbeddingGradientOp&, const NodeView& node) { return node.in(1).shape.elements(); }

void AddGradient(const EmbeddingOp&, GradientContext& context) {
  const Value table = context.input(1);
  const NodeId gradient = context.Add("table", EmbeddingGradientOp{}, {context.input(0), context.output_gradient()}, {context.spec(table)});
  context.SetInputGradient(1, {gradient, 0});
}

}  // namespace trainyard::engine
