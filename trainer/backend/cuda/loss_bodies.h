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

template <typename T>
struct NormApply {
  const T* x;
  const float* mean;
  const float* scale;
  const float* gamma;
  const float* beta;
  T* y;
  Divisor channels;
  bool relu;

  int neighbours() const { return NeighboursIn(channels.by(), x, mean, scale, gamma, beta, y); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    const int64_t c = channels.Remainder(i);
    float values[kN], means[kN], scales[kN], gammas[kN], betas[kN];
    Load(x + i, values);
    Load(mean + c, means);
    Load(scale + c, scales);
    Load(gamma + c, gammas);
    Load(beta + c, betas);
    for (int k = 0; k < kN; ++k) {
      const float z = (values[k] - means[k]) * scales[k] * gammas[k] + betas[k];
      values[k] = relu && z <= 0.0f ? 0.0f : z;  // NaN stays NaN
    }
    Store(values, y + i);
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
template <typename T>
struct NormBack {
  Normalised<T> normal;
  Divisor channels;
  const float* dgamma;
  const float* dbeta;
  const T* more;
  T* dx;
  float rows;

  int neighbours() const { return NeighboursIn(normal.neighbours(), dgamma, dbeta, more, dx); }
  template <int kN>
  TY_DEVICE void Run(int64_t i) const {
    const int64_t c = channels.Remainder(i);
    const NormalisedAt<kN> at(normal, i, c);
    float dgammas[kN], dbetas[kN], gradients[kN];
    Load(dgamma + c, dgammas);
    Load(dbeta + c, dbetas);
    const float share = 1.0f / rows;
    for (int k = 0; k < kN; ++k) {
      const float away = at.gradient[k] - dbetas[k] * share - at.value[k] * dgammas[k] * share;
      gradients[k] = at.gamma[k] * at.scale[k] * away;
    }
    if (more != nullptr) {
      float added[kN];
      Load(more + i, added);
      for (int k = 0; k < kN; ++k) gradients[k] += added[k];
    }
    Store(gradients, dx + i);
  }
};

}  // namespace trainyard::engine::cuda
