// Checks that shape rules share. Errors say what was found and what was expected; the builder adds
// the layer's name.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "trainer/graph/node.h"

namespace trainyard::engine {

// `spec` holds real numbers. `what` names it in the error: "input", "labels".
absl::Status ExpectReal(std::string_view what, const ValueSpec& spec);
// `spec` is batched, real, and has the extents that `axes` names, as in "[batch, height, width,
// channels]".
absl::Status ExpectImages(std::string_view what, const ValueSpec& spec);
absl::Status ExpectBatchOfVectors(std::string_view what, const ValueSpec& spec);
// `spec` is a row-major (not batched) real tensor of `shape`; `axes` names its extents.
absl::Status ExpectWeights(std::string_view what, const ValueSpec& spec, const Shape& shape, std::string_view axes);
// Both real and of one shape and layout.
absl::Status ExpectSame(std::string_view what_a, const ValueSpec& a, std::string_view what_b, const ValueSpec& b);

}  // namespace trainyard::engine
