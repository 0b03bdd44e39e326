// The panels of a batch in a few parts, each with sums of its own: how weight gradients divide
// among threads, while their bits depend on the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/base/thread_pool.h"

namespace trainyard::engine {

// to[i] = the sum of `parts` arrays, `stride` floats apart, for i in [begin, end).
inline void SumParts(const float* sums, int parts, int64_t stride, float* to, int64_t begin, int64_t end) {
  std::copy(sums + begin, sums + end, to + begin);
  for (int part = 1; part < parts; ++part) {
    const float* from = sums + part * stride;
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  }
}

class PanelParts {
 public:
  explicit PanelParts(int panels) : panels_(panels), count_(std::clamp(panels, 1, kMost)) {}

  int count() const { return count_; }
  int begin(int64_t part) const { return static_cast<int>(part * panels_ / count_); }

  // Calls work(part, first, last, thread) until each part has had all of `units`. A thread takes
  // units of one part after another.
  template <typename Work>
  void Run(int64_t units, ThreadPool& pool, const Work& work) const {
    pool.Run(count_ * units, [&](int64_t begin, int64_t end, int thread) {
      while (begin < end) {
        const int64_t part = begin / units;
        const int64_t first = begin - part * units;
        const int64_t last = std::min(units, first + end - begin);
        work(part, static_cast<int>(first), static_cast<int>(last), thread);
        begin += last - first;
      }
    });
  }

 private:
  static constexpr int kMost = 4;
  int panels_, count_;
};

}  // namespace trainyard::engine
