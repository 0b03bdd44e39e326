#include "trainer/ops/concat.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::StatusOr<ValueSpec> InferConcat(std::span<const ValueSpec> parts) {
  if (parts.size() < 2) return absl::InvalidArgumentError(fmt::format("found {} inputs, expected two or more", parts.size()));
  TY_RETURN_IF_ERROR(ExpectBatchOfVectors("input 0", parts[0]));
  ValueSpec y = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    ValueSpec other = parts[i];
    if (other.shape.rank() == y.shape.rank()) other.shape.Set(-1, parts[0].shape[-1]);
    TY_RETURN_IF_ERROR(ExpectSame("input 0 without its last extent", parts[0], fmt::format("input {}", i), other));
    y.shape.Set(-1, y.shape[-1] + parts[i].shape[-1]);
  }
  return y;
}

void AddGradient(const ConcatOp&, GradientContext& context) {
  int64_t begin = 0;
  for (int i = 0; i < context.input_count(); ++i) {
    const ValueSpec spec = context.spec(context.input(i));
    if (context.wants(i)) {
      context.SetInputGradient(i,
                               {context.Add(fmt::format("input{}", i), SliceOp{.begin = begin}, {context.output_gradient()}, {spec}), 0});
    }
    begin += spec.shape[-1];
  }
}

}  // namespace trainyard::engine
