// Element by element work over whole vectors, and the bias's gradient.
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/dropout.h"
#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/panels.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace TRAINYARD_ISA {

void ActivateVectors(const float* x, float* y, int64_t vectors, Activation activation) { Activate(x, y, vectors, activation); }

void ActivateGradient(const float* dy, const float* y, float* dx, int64_t vectors, Activation activation) {
  VisitActivation(activation, [&]<Activation kActivation>() {
    for (int64_t i = 0; i < vectors * kLanes; i += kLanes) {
      Store(dx + i, ActivationKernel<kActivation>::Gradient(Load(dy + i), Load(y + i)));
    }
  });
}

void Add(const float* const* terms, int count, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin * kLanes; i < end * kLanes; i += kLanes) {
    V sum = Load(terms[0] + i);
    for (int t = 1; t < count; ++t) sum += Load(terms[t] + i);
    Store(y + i, sum);
  }
}

void Bias(const float* x, const float* bias, float* y, int64_t pixels, int channels) {
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    for (int c = 0; c < channels; ++c) {
      Store(y, Load(x) + bias[c]);
      x += kLanes;
      y += kLanes;
    }
  }
}

void BiasGradient(const float* dy, float* db, int64_t pixels, int channels, int begin, int end) {
  for (int c = begin; c < end; c += kLanes) {
    const int width = MinInt(kLanes, end - c);
    V sum[kLanes] = {};
    const float* from = dy + int64_t{c} * kLanes;
    if (width == kLanes) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel, from += int64_t{channels} * kLanes) {
        for (int i = 0; i < kLanes; ++i) sum[i] += Load(from + i * kLanes);
      }
    } else {
      for (int64_t pixel = 0; pixel < pixels; ++pixel, from += int64_t{channels} * kLanes) {
        for (int i = 0; i < width; ++i) sum[i] += Load(from + i * kLanes);
      }
    }
    alignas(64) float sums[kLanes];
    Store(sums, SumLanes(sum));
    for (int i = 0; i < width; ++i) db[c + i] = sums[i];
  }
}

void Dropout(const DropoutArgs& args) { DropoutOf<WidePanels>::Run(args); }

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
