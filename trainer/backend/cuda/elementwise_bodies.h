// Bodies of loops over elements: body(i) does the work of element i, any i at any time. Others do
// that of kN neighbours by Run<kN>(i), i a multiple of kN, with neighbours() the most that they
// can; a rest of fewer is done one by one. A pointer is to device memory; values are row-major. y
// may be x where MayRunInPlace (ops/rules.h) allows it.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/device_code.h"
#include "trainer/backend/cuda/divide.h"
#include "trainer/backend/cuda/elements.h"
#include "trainer/graph/activation.h"
#include "trainer/ops/philox.h"

namespace trainyard::engine::cuda {

TY_DEVICE inline float Activate(Activation activation, float x) {
  float y = 0.0f;
  VisitActivation(activation, [&]<Activation kActivation>() { y = ActivationRow<kActivation>::Forward(x); });
  return y;
}

TY_DEVICE inline float ActivationSlope(Activation activation, float y) {
  float slope = 0.0f;
  VisitActivation(activation, [&]<Activation kActivation>() { slope = ActivationRow<kActivation>::Slope(y); });
  return slope;
}

struct Fill {
  float* y;
  float value;

  TY_DEVICE void operator()(int64_t i) const { y[i] = value; }
};

// Pixels as they are fed → y
struct ScaleBytes {
  const uint8_t* x;
  float* y;
  float scale;

  TY_DEVICE void operator()(int64_t i) const { y[i] = static_cast<float>(x[i]) * scale; }
};

// y = activation(x + bias[channel]); bias may be null.
template <typename T>
struct BiasActivate {
  const T* x;
  const float* bias;
  T* y;
  Divisor channels;
  Activation activation;

  int neighbours() const { return NeighboursIn(bias == nullptr ? kMostNeighbours : channels.by(), x, bias, y); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    float values[kN];
    Load(x + i, values);
    if (bias != nullptr) {
      float shifts[kN];
      Load(bias + channels.Remainder(i), shifts);
      for (int k = 0; k < kN; ++k) values[k] += shifts[k];
    }
    for (int k = 0; k < kN; ++k) values[k] = Activate(activation, values[k]);
    Store(values, y + i);
  }
};

template <typename T>
struct ActivateBack {
  const T* dy;
  const T* y;
  T* dx;
  Activation activation;

  int neighbours() const { return NeighboursIn(kMostNeighbours, dy, y, dx); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    float gradients[kN], values[kN];
    Load(dy + i, gradients);
    Load(y + i, values);
    for (int k = 0; k < kN; ++k) gradients[k] *= ActivationSlope(activation, values[k]);
    Store(gradients, dx + i);
  }
};

// The sum of `count` terms, from the first to the last.
template <typename T>
struct AddTerms {
  static constexpr int kMost = 16;
  const T* terms[kMost];
  int count;
  T* y;

  int neighbours() const {
    int most = NeighboursIn(kMostNeighbours, y);
    for (int term = 0; term < count; ++term) most = NeighboursIn(most, terms[term]);
    return most;
  }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    float sums[kN];
    Load(terms[0] + i, sums);
    for (int term = 1; term < count; ++term) {
      float values[kN];
      Load(terms[term] + i, values);
      for (int k = 0; k < kN; ++k) sums[k] += values[k];
    }
    Store(sums, y + i);
  }
};

// Rows of `width` elements, x_stride apart → rows y_stride apart.
template <typename X, typename Y>
struct CopyRows {
  const X* x;
  Y* y;
  Divisor width;
  int64_t x_stride, y_stride;

  int neighbours() const { return NeighboursIn(width.by() | x_stride | y_stride, x, y); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    const auto [row, column] = width.Divide(i);
    float values[kN];
    Load(x + row * x_stride + column, values);
    Store(values, y + row * y_stride + column);
  }
};

// x [rows, columns] → y [columns, rows]
template <typename X, typename Y>
struct Transpose {
  const X* x;
  Y* y;
  Divisor rows;
  int64_t columns;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [column, row] = rows.Divide(i);
    Narrow(Widened(x[row * columns + column]), y[i]);
  }
};

// The StepContext, in device memory: a recorded step reads it anew.
struct DeviceStep {
  uint64_t seed;
  uint64_t step;
  uint32_t worker;
  uint32_t training;
  float loss_scale;
};

// i counts the quads of all samples: four features of one sample, or those that are left.
struct Dropout {
  const float* x;
  float* y;
  const DeviceStep* step;
  int64_t features;
  float scale;
  uint32_t threshold;
  uint32_t stream;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t quads = (features + 3) / 4;
    const auto [sample, quad] = Divide(i, quads);
    const PhiloxCounter words =
        PhiloxStream(step->seed, step->step, step->worker, stream).Words(static_cast<uint32_t>(sample), static_cast<uint32_t>(quad));
    for (int64_t f = 4 * quad; f < 4 * quad + 4 && f < features; ++f) {
      const int64_t at = sample * features + f;
      if (step->training == 0) {
        y[at] = x[at];
      } else {
        y[at] = words[f - 4 * quad] < threshold ? 0.0f : x[at] * scale;
      }
    }
  }
};

}  // namespace trainyard::engine::cuda
