// Work on results while they are still in the nearest cache: pool, then activate.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

inline void Activate(const float* x, float* y, int64_t vectors, Activation activation) {
  VisitActivation(activation, [&]<Activation kActivation>() {
    for (int64_t i = 0; i < vectors * kLanes; i += kLanes) Store(y + i, ActivationKernel<kActivation>::Forward(Load(x + i)));
  });
}

// One vector's. relu is done where it is called; of others there is one copy.
[[gnu::noinline]] inline V ActivatedByCall(V value, Activation activation) {
  V activated = value;
  VisitActivation(activation, [&]<Activation kActivation>() { activated = ActivationKernel<kActivation>::Forward(value); });
  return activated;
}
inline V Activated(V value, Activation activation) {
  if (activation == Activation::kIdentity) return value;
  if (activation == Activation::kRelu) return ActivationKernel<Activation::kRelu>::Forward(value);
  return ActivatedByCall(value, activation);
}

// The maximum over rows x columns pixels of `channels` vectors; `corner` is the window's first
// pixel, its place `first` plus rows of `place_row`. The first of equals wins; a NaN wins over all
// but a later NaN.
inline void MaxWindow(const float* corner, int64_t row, int64_t column, int rows, int columns, int first, int place_row, int channels,
                      float* y, uint8_t* argmax) {
  for (int c = 0; c < channels; ++c) {
    const float* x = corner + int64_t{c} * kLanes;
    V best = Load(x);
    VI winner = SplatInt(first);
    for (int r = 0; r < rows; ++r) {
      for (int j = 0; j < columns; ++j) {
        const V value = Load(x + r * row + j * column);
        const VI better = (value > best) | (value != value);
        best = Select(better, value, best);
        winner = Select(better, SplatInt(first + r * place_row + j), winner);
      }
    }
    Store(y + int64_t{c} * kLanes, best);
    if (argmax != nullptr) *reinterpret_cast<V8*>(argmax + int64_t{c} * kLanes) = __builtin_convertvector(winner, V8);
  }
}

}  // namespace
}  // namespace trainyard::engine
