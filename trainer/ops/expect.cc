#include "trainer/ops/expect.h"

#include <fmt/format.h>

namespace trainyard::engine {

absl::Status ExpectReal(std::string_view what, const ValueSpec& spec) {
  if (spec.dtype == DType::kF32) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has element type {}, expected F32", what, DTypeName(spec.dtype)));
}

absl::Status ExpectImages(std::string_view what, const ValueSpec& spec) {
  if (absl::Status real = ExpectReal(what, spec); !real.ok()) return real;
  if (spec.batched && spec.shape.rank() == 4) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has shape {}, expected images [batch, height, width, channels]", what, spec.shape.ToString()));
}

absl::Status ExpectBatchOfVectors(std::string_view what, const ValueSpec& spec) {
  if (absl::Status real = ExpectReal(what, spec); !real.ok()) return real;
  if (spec.batched && spec.shape.rank() >= 2) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has shape {}, expected [batch, .., features]", what, spec.shape.ToString()));
}

absl::Status ExpectWeights(std::string_view what, const ValueSpec& spec, const Shape& shape, std::string_view axes) {
  if (absl::Status real = ExpectReal(what, spec); !real.ok()) return real;
  if (!spec.batched && spec.shape == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has shape {}, expected {} {}", what, spec.shape.ToString(), axes, shape.ToString()));
}

absl::Status ExpectSame(std::string_view what_a, const ValueSpec& a, std::string_view what_b, const ValueSpec& b) {
  if (absl::Status real = ExpectReal(what_a, a); !real.ok()) return real;
  if (a == b) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has shape {} and {} has {}, expected the same", what_a, a.shape.ToString(), what_b, b.shape.ToString()));
}

}  // namespace trainyard::engine
