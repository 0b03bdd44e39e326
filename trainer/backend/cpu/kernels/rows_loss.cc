// Softmax and its cross-entropy where classes are lanes: a row of scores at a time, in one fixed
// order.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr float kLowest = -3.402823466e+38f;

inline float SumOf(V v) {
  float sum = 0.0f;
  for (int l = 0; l < kLanes; ++l) sum += v[l];
  return sum;
}

inline float Highest(const float* x, int classes) {
  V best[4] = {Splat(kLowest), Splat(kLowest), Splat(kLowest), Splat(kLowest)};
  int c = 0;
  for (; c + 4 * kLanes <= classes; c += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) best[j] = Max(LoadUnaligned(x + c + j * kLanes), best[j]);
  }
  for (; c + kLanes <= classes; c += kLanes) best[0] = Max(LoadUnaligned(x + c), best[0]);
  const V all = Max(Max(best[0], best[1]), Max(best[2], best[3]));
  float highest = kLowest;
  for (int l = 0; l < kLanes; ++l) highest = all[l] > highest ? all[l] : highest;
  for (; c < classes; ++c) highest = x[c] > highest ? x[c] : highest;
  return highest;
}

// y[c] = e^(x[c] - highest), unless y is null; the sum of them.
inline float ExpOver(const float* x, float highest, float* y, int classes) {
  V sum[2] = {};
  int c = 0;
  for (; c + 2 * kLanes <= classes; c += 2 * kLanes) {
    for (int j = 0; j < 2; ++j) {
      const V e = Exp(LoadUnaligned(x + c + j * kLanes) - highest);
      sum[j] += e;
      if (y != nullptr) StoreUnaligned(y + c + j * kLanes, e);
    }
  }
  float total = SumOf(sum[0] + sum[1]);
  for (; c < classes; c += kLanes) {
    const int count = MinInt(kLanes, classes - c);
    const V e = Exp(LoadPart(x + c, count) - highest);
    for (int l = 0; l < count; ++l) total += e[l];
    if (y != nullptr) StorePart(y + c, e, count);
  }
  return total;
}

inline void Scale(const float* x, float factor, float* y, int classes) {
  int c = 0;
  for (; c + kLanes <= classes; c += kLanes) StoreUnaligned(y + c, LoadUnaligned(x + c) * factor);
  for (; c < classes; ++c) y[c] = x[c] * factor;
}

}  // namespace

namespace TRAINYARD_ISA {

void SoftmaxRows(const RowLossArgs& args) {
  for (int64_t row = args.begin; row < args.end; ++row) {
    const float* x = args.x + row * args.classes;
    float* y = args.y + row * args.classes;
    const float sum = ExpOver(x, Highest(x, args.classes), y, args.classes);
    Scale(y, 1.0f / sum, y, args.classes);
  }
}

void CrossEntropyRows(const RowLossArgs& args) {
  for (int64_t row = args.begin; row < args.end; ++row) {
    const float* x = args.x + row * args.classes;
    float* y = args.y == nullptr ? nullptr : args.y + row * args.classes;
    const float wanted = x[args.labels[row]];
    const float highest = Highest(x, args.classes);
    const float sum = ExpOver(x, highest, y, args.classes);
    if (y != nullptr) Scale(y, 1.0f / sum, y, args.classes);
    args.losses[row] = static_cast<double>(Log(Splat(sum))[0] + (highest - wanted));
  }
}

void CrossEntropyGradientRows(const RowLossArgs& args) {
  for (int64_t row = args.begin; row < args.end; ++row) {
    const int64_t at = row * args.classes;
    const int64_t label = at + args.labels[row];
    const float wanted = (args.x[label] - 1.0f) * args.scale;
    Scale(args.x + at, args.scale, args.y + at, args.classes);
    args.y[label] = wanted;
  }
}

void CorrectRows(const RowLossArgs& args) {
  for (int64_t row = args.begin; row < args.end; ++row) {
    const float* x = args.x + row * args.classes;
    const int32_t label = args.labels[row];
    bool first = x[label] >= Highest(x, args.classes);
    for (int32_t c = 0; first && c < label; ++c) first = x[c] < x[label];
    args.correct[row] = first ? 1 : 0;
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
