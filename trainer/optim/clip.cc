#include "trainer/optim/clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// Partial sums by position in the tensor modulo kLanes, added up in lane order. The result does not
// depend on vector width, nor on whether elements that are 0 are counted or left out.
constexpr size_t kLanes = 16;
using Lanes = std::array<double, kLanes>;

// Adds the squares of `values`, whose first one is at `position` in its tensor.
void AddSquares(std::span<const float> values, size_t position, Lanes& lanes) {
  size_t i = 0;
  for (; i < values.size() && (position + i) % kLanes != 0; ++i) {
    const double value = values[i];
    lanes[(position + i) % kLanes] += value * value;
  }
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
  for (size_t lane = 0; i < values.size(); ++i, ++lane) {
    const double value = values[i];
    lanes[lane] += value * value;
  }
}

// A tensor's elements in parts by position, which depend on nothing but their number.
struct Parts {
  static constexpr size_t kMost = 64;
  static constexpr size_t kLeast = 64 << 10;  // elements: fewer cost less than waking a thread

  explicit Parts(size_t all)
      : elements(std::max(kLeast, ((all + kMost - 1) / kMost + kLanes - 1) / kLanes * kLanes)), count((all + elements - 1) / elements) {}

  // Calls work(part) for all of them.
  template <typename Work>
  void Run(ThreadPool* threads, const Work& work) const {
    const auto run = [&work](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) work(static_cast<size_t>(part));
    };
    const auto all = static_cast<int64_t>(count);
    if (threads == nullptr) return run(0, all);
    threads->Run(all, [&run](int64_t begin, int64_t end, int /*thread*/) { run(begin, end); });
  }

  size_t elements;  // of each but the last; whole lanes
  size_t count;
};

// Calls visit(values, position) with every stretch of a part of `key`'s gradient that may differ
// from zero.
template <typename Visit>
void ForTouched(ParameterSet& gradients, int key, const Parts& parts, size_t part, const Visit& visit) {
  const std::span<float> values = gradients.values(key);
  const size_t begin = part * parts.elements;
  const size_t end = std::min(values.size(), begin + parts.elements);
  const TouchedRows& touched = gradients.touched_rows(key);
  if (touched.all()) {
    visit(values.subspan(begin, end - begin), begin);
    return;
  }
  const auto row_elements = static_cast<size_t>(gradients.spec(key).row_elements());
  const std::span<const int32_t> rows = touched.ids();
  for (auto row = std::ranges::lower_bound(rows, static_cast<int32_t>(begin / row_elements)); row != rows.end(); ++row) {
    const size_t first = static_cast<size_t>(*row) * row_elements;
    if (first >= end) break;
    const size_t from = std::max(first, begin);
    visit(values.subspan(from, std::min(first + row_elements, end) - from), from);
  }
}

double SumOfSquares(ParameterSet& gradients, int key, ThreadPool* threads) {
  const Parts parts(gradients.values(key).size());
  std::array<double, Parts::kMost> sums;
  parts.Run(threads, [&](size_t part) {
    Lanes lanes{};
    ForTouched(gradients, key, parts, part, [&](std::span<float> values, size_t position) { AddSquares(values, position, lanes); });
    sums[part] = std::accumulate(lanes.begin(), lanes.end(), 0.0);
  });
  return std::accumulate(sums.begin(), sums.begin() + static_cast<ptrdiff_t>(parts.count), 0.0);
}

}  // namespace

void ScaleGradient(float factor, int key, ParameterSet& gradients, ThreadPool* threads) {
  const Parts parts(gradients.values(key).size());
  parts.Run(threads, [&](size_t part) {
    ForTouched(gradients, key, parts, part, [&](std::span<float> values, size_t /*position*/) {
      for (float& value : values) value *= factor;
    });
  });
}

double ClipByGlobalNorm(double clip_norm, ParameterSet& gradients, ThreadPool* threads) {
  TY_CHECK(clip_norm > 0);
  double sum = 0;
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) sum += SumOfSquares(gradients, key, threads);
  }
  const double norm = std::sqrt(sum);
  if (!std::isfinite(norm) || norm <= clip_norm) return norm;
  const auto scale = static_cast<float>(clip_norm / norm);
  for (int key = 0; key < gradients.size(); ++key) {
    if (gradients.spec(key).trainable) ScaleGradient(scale, key, gradients, threads);
  }
  return norm;
}

}  // namespace trainyard::engine
