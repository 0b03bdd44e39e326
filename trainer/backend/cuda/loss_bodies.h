// Bodies of loops over elements that follow a reduction: losses, softmax, batch normalisation.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/backend/cuda/divide.h"
#include "trainer/backend/cuda/sum_bodies.h"

namespace trainyard::engine::cuda {

struct SoftmaxRow {
  const float* x;
  const float* log_sum;  // [row]
  float* y;
  int64_t width;

  TY_DEVICE void operator()(int64_t i) const { y[i] = std::exp(x[i] - log_sum[Quotient(i, width)]); }
};

struct SoftmaxBack {
  const float* dy;
  const float* y;
  const float* dot;  // [row]: the sum of dy y
  float* dx;
  int64_t width;

  TY_DEVICE void operator()(int64_t i) const { dx[i] = y[i] * (dy[i] - dot[Quotient(i, width)]); }
};

struct CrossEntropyBack {
  const float* probabilities;
  const int32_t* labels;
  const float* dloss;
  float* dlogits;
  int64_t width;
  float rows;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [row, column] = Divide(i, width);
    const float hit = labels[row] == column ? 1.0f : 0.0f;
    dlogits[i] = (probabilities[i] - hit) * (*dloss / rows);
  }
};

struct SquaredErrorBack {
  const float* prediction;
  const float* target;
  const float* dloss;
  float* gradient;
  float elements;

  TY_DEVICE void operator()(int64_t i) const { gradient[i] = (prediction[i] - target[i]) * (2.0f * *dloss / elements); }
};

struct PenaltyBack {
  const float* weights;
  const float* dloss;
  float* gradient;
  float l2;

  TY_DEVICE void operator()(int64_t i) const { gradient[i] = 2.0f * l2 * *dloss * weights[i]; }
};

struct NormApply {
  const float* x;
  const float* mean;
  const float* scale;
  const float* gamma;
  const float* beta;
  float* y;
  int64_t channels;
  bool relu;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t c = Remainder(i, channels);
    const float z = (x[i] - mean[c]) * scale[c] * gamma[c] + beta[c];
    y[i] = relu && z <= 0.0f ? 0.0f : z;  // NaN stays NaN
  }
};

// By channel: what batch normalisation uses, and leaves, outside training. The next ones may be
// null.
struct NormFromMoving {
  const float* moving_mean;
  const float* moving_variance;
  float* mean;
  float* scale;
  float* next_mean;
  float* next_variance;
  float epsilon;

  TY_DEVICE void operator()(int64_t c) const {
    mean[c] = moving_mean[c];
    scale[c] = 1.0f / std::sqrt(moving_variance[c] + epsilon);
    if (next_mean != nullptr) next_mean[c] = moving_mean[c];
    if (next_variance != nullptr) next_variance[c] = moving_variance[c];
  }
};

// dx may be dy, x or `more`, which is added and may be null.
struct NormBack {
  Normalised normal;
  const float* dgamma;
  const float* dbeta;
  const float* more;
  float* dx;
  float rows;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t c = Remainder(i, normal.channels);
    const float away = normal.Gradient(i, c) - dbeta[c] / rows - normal.At(i, c) * dgamma[c] / rows;
    const float gradient = normal.gamma[c] * normal.scale[c] * away;
    dx[i] = more == nullptr ? gradient : gradient + more[i];
  }
};

}  // namespace trainyard::engine::cuda
