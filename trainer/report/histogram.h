// The distribution of many values in few numbers.
#pragma once

#include <span>
#include <vector>

namespace trainyard::engine {

// buckets[i] values are above limits[i - 1] (or are the smallest) and at most limits[i]. Values
// that are not finite are in `not_finite` and nowhere else.
struct HistogramCounts {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  double not_finite = 0;
  std::vector<double> limits;
  std::vector<double> buckets;
};

// `bins` buckets of equal width from the smallest to the largest value; one bucket when all are
// equal, none when there are none.
HistogramCounts CountHistogram(std::span<const float> values, int bins = 30);

}  // namespace trainyard::engine
