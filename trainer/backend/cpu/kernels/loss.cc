// Softmax, losses and metrics: classes are vectors, samples are lanes, so nothing is ever added
// across lanes but the loss itself.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Lanes of panel `panel` that hold samples: all ones.
inline VI SampleMask(int samples, int panel) {
  const VI lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < SplatInt(samples - panel * kLanes);
}

inline V MaxOver(const float* x, int classes) {
  V best = Load(x);
  for (int c = 1; c < classes; ++c) best = Max(Load(x + int64_t{c} * kLanes), best);
  return best;
}

// y[c] = e^(x[c] - highest); the sum of them. y may be null.
inline V ExpOver(const float* x, V highest, float* y, int classes) {
  V sum = {};
  for (int c = 0; c < classes; ++c) {
    const V e = Exp(Load(x + int64_t{c} * kLanes) - highest);
    sum += e;
    if (y != nullptr) Store(y + int64_t{c} * kLanes, e);
  }
  return sum;
}

inline void Scale(float* y, V factor, int classes) {
  for (int c = 0; c < classes; ++c) Store(y + int64_t{c} * kLanes, Load(y + int64_t{c} * kLanes) * factor);
}

inline double SumMasked(V v, VI mask) {
  alignas(64) float lanes[kLanes];
  Store(lanes, AsFloat(AsInt(v) & mask));
  double sum = 0.0;
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

template <typename PerPixel>
void ForPixels(const LossArgs& args, PerPixel&& per_pixel) {
  for (int panel = 0; panel < args.panels; ++panel) {
    const VI mask = SampleMask(args.samples, panel);
    for (int i = 0; i < args.pixels_per_panel; ++i) per_pixel(int64_t{panel} * args.pixels_per_panel + i, mask);
  }
}

inline VI LoadLabels(const LossArgs& args, int64_t pixel) { return *reinterpret_cast<const VI*>(args.labels + pixel * kLanes); }

}  // namespace

namespace TRAINYARD_ISA {

void Softmax(const float* x, float* y, int64_t pixels, int classes) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const V sum = ExpOver(x, MaxOver(x, classes), y, classes);
    Scale(y, 1.0f / sum, classes);
    x += int64_t{classes} * kLanes;
    y += int64_t{classes} * kLanes;
  }
}

void SoftmaxGradient(const float* dy, const float* y, float* dx, int64_t pixels, int classes) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    V dot = {};
    for (int c = 0; c < classes; ++c) dot += Load(dy + int64_t{c} * kLanes) * Load(y + int64_t{c} * kLanes);
    for (int c = 0; c < classes; ++c) {
      Store(dx + int64_t{c} * kLanes, (Load(dy + int64_t{c} * kLanes) - dot) * Load(y + int64_t{c} * kLanes));
    }
    dy += int64_t{classes} * kLanes;
    y += int64_t{classes} * kLanes;
    dx += int64_t{classes} * kLanes;
  }
}

double CrossEntropy(const LossArgs& args) {
  double total = 0.0;
  ForPixels(args, [&](int64_t pixel, VI mask) {
    const int64_t at = pixel * args.classes * kLanes;
    const float* x = args.x + at;
    const VI label = LoadLabels(args, pixel);
    V wanted = {};
    for (int c = 0; c < args.classes; ++c) wanted = Select(label == SplatInt(c), Load(x + int64_t{c} * kLanes), wanted);
    const V highest = MaxOver(x, args.classes);
    float* y = args.y == nullptr ? nullptr : args.y + at;
    const V sum = ExpOver(x, highest, y, args.classes);
    if (y != nullptr) Scale(y, 1.0f / sum, args.classes);
    total += SumMasked(Log(sum) + (highest - wanted), mask);
  });
  return total;
}

void CrossEntropyGradient(const LossArgs& args) {
  ForPixels(args, [&](int64_t pixel, VI mask) {
    const int64_t at = pixel * args.classes * kLanes;
    const VI label = LoadLabels(args, pixel);
    for (int c = 0; c < args.classes; ++c) {
      const V one = AsFloat((label == SplatInt(c)) & AsInt(Splat(1.0f)));
      const V gradient = (Load(args.x + at + int64_t{c} * kLanes) - one) * args.scale;
      Store(args.y + at + int64_t{c} * kLanes, AsFloat(AsInt(gradient) & mask));
    }
  });
}

int64_t CorrectCount(const LossArgs& args) {
  int64_t total = 0;
  ForPixels(args, [&](int64_t pixel, VI mask) {
    const float* x = args.x + pixel * args.classes * kLanes;
    V best = Load(x);
    VI winner = {};
    for (int c = 1; c < args.classes; ++c) {
      const V value = Load(x + int64_t{c} * kLanes);
      const VI better = value > best;
      best = Select(better, value, best);
      winner = Select(better, SplatInt(c), winner);
    }
    const VI correct = (winner == LoadLabels(args, pixel)) & mask;
    for (int l = 0; l < kLanes; ++l) total -= correct[l];
  });
  return total;
}

double SquaredError(const LossArgs& args) {
  double total = 0.0;
  ForPixels(args, [&](int64_t pixel, VI mask) {
    V sum = {};
    for (int64_t i = pixel * args.classes * kLanes; i < (pixel + 1) * args.classes * kLanes; i += kLanes) {
      const V difference = Load(args.x + i) - Load(args.target + i);
      sum += difference * difference;
    }
    total += SumMasked(sum, mask);
  });
  return total;
}

void SquaredErrorGradient(const LossArgs& args) {
  ForPixels(args, [&](int64_t pixel, VI mask) {
    for (int64_t i = pixel * args.classes * kLanes; i < (pixel + 1) * args.classes * kLanes; i += kLanes) {
      Store(args.y + i, AsFloat(AsInt((Load(args.x + i) - Load(args.target + i)) * args.scale) & mask));
    }
  });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
