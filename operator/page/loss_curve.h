// LossCurve: the progress of one job over its steps, in bounded memory.
#pragma once

#include <cstdint>
#include <vector>

#include "operator/api/training_job.h"

namespace trainyard::control {

// Not thread-safe.
class LossCurve {
 public:
  struct Point {
    int64_t step = 0;
    float loss = 0;   // NaN: not told
    float speed = 0;  // examples/s; NaN: not told
  };
  static constexpr size_t kMost = 128;  // points that are kept: 2 KiB

  // A step below those that are known takes their place: the job went back to a checkpoint.
  void Add(const Progress& progress);

  // At most `most` points in the order of their steps, evenly over all that were told. The last is
  // the newest.
  std::vector<Point> Points(size_t most = kMost + 1) const;

 private:
  // Every stride_-th told point, and the newest. Full, it forgets every second and keeps every
  // second from then on. So it always covers the whole training.
  std::vector<Point> points_;
  Point newest_;
  bool newest_is_kept_ = true;
  uint32_t stride_ = 1;
  uint32_t since_ = 0;  // told points since the last kept one
};

}  // namespace trainyard::control
