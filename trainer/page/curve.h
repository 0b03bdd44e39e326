// A number over the steps of a training, and as few points of it as a picture needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::engine {

struct CurvePoint {
  int64_t step = 0;
  double value = 0;  // may be NaN or infinite

  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// At most `most` of the points, in their order: the first, the last, and one of each of most - 2
// ranges of as many points. Of a range it is the point that spans the largest triangle with the
// point chosen before and the mean of the next range: Largest-Triangle-Three-Buckets (Steinarsson
// 2013, "Downsampling Time Series for Visual Representation"), which keeps peaks. A range with
// values that are not finite gives the first of these. most >= 3.
std::vector<CurvePoint> Downsample(std::span<const CurvePoint> points, size_t most);

}  // namespace trainyard::engine
