#include "trainer/report/histogram.h"

#include <algorithm>
#include <cmath>

#include "trainer/base/check.h"

namespace trainyard::engine {

HistogramCounts CountHistogram(std::span<const float> values, int bins) {
  TY_CHECK(bins > 0);
  HistogramCounts counts;
  for (float value : values) {
    const double v = value;
    if (!std::isfinite(v)) {
      ++counts.not_finite;
      continue;
    }
    counts.min = counts.count == 0 ? v : std::min(counts.min, v);
    counts.max = counts.count == 0 ? v : std::max(counts.max, v);
    ++counts.count;
    counts.sum += v;
    counts.sum_squares += v * v;
  }
  if (counts.count == 0) return counts;
  if (counts.min == counts.max) {
    counts.limits = {counts.max};
    counts.buckets = {counts.count};
    return counts;
  }
  const double width = (counts.max - counts.min) / bins;
  for (int i = 1; i < bins; ++i) counts.limits.push_back(counts.min + i * width);
  counts.limits.push_back(counts.max);
  counts.buckets.assign(static_cast<size_t>(bins), 0);
  for (float value : values) {
    if (!std::isfinite(value)) continue;
    const auto bucket = static_cast<int>(std::ceil((value - counts.min) / width)) - 1;
    ++counts.buckets[static_cast<size_t>(std::clamp(bucket, 0, bins - 1))];
  }
  return counts;
}

}  // namespace trainyard::engine
