// Bodies of loops over elements: body(i) does the work of element i, any i at any time. A pointer
// is to device memory; values are row-major. y may be x where MayRunInPlace (ops/rules.h) allows
// it.
#pragma once

#include <bit>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"
#include "trainer/backend/cuda/divide.h"
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
struct BiasActivate {
  const float* x;
  const float* bias;
  float* y;
  int64_t channels;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const { y[i] = Activate(activation, bias == nullptr ? x[i] : x[i] + bias[Remainder(i, channels)]); }
};

struct ActivateBack {
  const float* dy;
  const float* y;
  float* dx;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const { dx[i] = dy[i] * ActivationSlope(activation, y[i]); }
};

// The sum of `count` terms, from the first to the last.
struct AddTerms {
  static constexpr int kMost = 16;
  const float* terms[kMost];
  int count;
  float* y;

  TY_DEVICE void operator()(int64_t i) const {
    float sum = terms[0][i];
    for (int term = 1; term < count; ++term) sum += terms[term][i];
    y[i] = sum;
  }
};

// Columns `x_begin` .. + width of rows of x_width → columns y_begin .. of rows of y_width.
struct CopyColumns {
  const float* x;
  float* y;
  int64_t width, x_width, x_begin, y_width, y_begin;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [row, column] = Divide(i, width);
    y[row * y_width + y_begin + column] = x[row * x_width + x_begin + column];
  }
};

// x [rows, columns] → y [columns, rows]
struct Transpose {
  const float* x;
  float* y;
  int64_t rows, columns;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [column, row] = Divide(i, rows);
    y[i] = x[row * columns + column];
  }
};

// What a step's random numbers depend on, in device memory: a recorded step reads it anew.
struct DeviceStep {
  uint64_t seed;
  uint64_t step;
  uint32_t worker;
  uint32_t training;
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

// y, rows of `width` without gaps: the upper half of x in rows of x_stride, rounded to nearest
// even; a NaN stays one (tensor/bfloat16.h).
struct ToBfloat16 {
  const float* x;
  uint16_t* y;
  int64_t width, x_stride;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [row, column] = Divide(i, width);
    const auto bits = std::bit_cast<uint32_t>(x[row * x_stride + column]);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
    y[i] = static_cast<uint16_t>(rounded >> 16);
  }
};

}  // namespace trainyard::engine::cuda
