// Bodies of reductions. Each has a type Sum with its zero and Combine; Term(output, i), the i-th of
// the terms of an output; Store(output, sum), which finishes it. With kAcross neighbouring outputs
// lie beside each other in memory, else neighbouring terms do. There Terms<kN>(output, i, terms)
// gives those of kN outputs. What one lane adds up is a Lane, of Terms of its own where a body has
// one. The order of a sum depends on the sizes alone (sum_order.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"
#include "trainer/backend/cuda/elements.h"

namespace trainyard::engine::cuda {

// A sum that is a plain float.
struct FloatSum {
  using Sum = float;
  TY_DEVICE static Sum Zero() { return 0.0f; }
  TY_DEVICE static Sum Combine(Sum a, Sum b) { return a + b; }
};

// Output c: the sum over rows of dy [rows, channels].
template <typename T>
struct SumRows : FloatSum {
  static constexpr bool kAcross = true;
  const T* dy;
  float* db;
  int64_t channels;

  template <int kN>
  TY_DEVICE void Terms(int64_t c, int64_t row, float (&terms)[kN]) const {
    Load(dy + row * channels + c, terms);
  }
  TY_DEVICE void Store(int64_t c, Sum sum) const { db[c] = sum; }
};

// Output c: what a training step of batch normalisation keeps of x [rows, channels]. The moving
// ones may be null. Each lane takes distances from its first term, so that the squares of a mean
// that is far from 0 do not swallow the variance. Lanes are added as in T. Chan, G. Golub,
// R. LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
template <typename T>
struct Moments {
  static constexpr bool kAcross = true;
  struct Sum {
    float count, mean, squares;  // squares of distances from the mean
  };
  class Lane {
   public:
    using Term = float;
    TY_DEVICE void Add(float x) {
      if (count_ == 0.0f) first_ = x;
      const float distance = x - first_;
      count_ += 1.0f;
      sum_ += distance;
      squares_ += distance * distance;
    }
    TY_DEVICE Sum Total() const {
      if (count_ == 0.0f) return Zero();
      const float mean = sum_ / count_;
      const float squares = squares_ - sum_ * mean;
      return {count_, first_ + mean, squares < 0.0f ? 0.0f : squares};  // NaN stays NaN
    }

   private:
    float count_ = 0.0f, first_ = 0.0f, sum_ = 0.0f, squares_ = 0.0f;
  };
  const T* x;
  const float* moving_mean;
  const float* moving_variance;
  float* mean;
  float* scale;  // 1 / sqrt(variance + epsilon)
  float* next_mean;
  float* next_variance;
  int64_t channels;
  float momentum, epsilon;

  TY_DEVICE static Sum Zero() { return {0.0f, 0.0f, 0.0f}; }
  TY_DEVICE static Sum Combine(Sum a, Sum b) {
    const float count = a.count + b.count;
    const float away = b.mean - a.mean;
    const float share = b.count == 0.0f ? 0.0f : b.count / count;
    return {count, a.mean + away * share, a.squares + b.squares + away * away * a.count * share};
  }
  template <int kN>
  TY_DEVICE void Terms(int64_t c, int64_t row, float (&terms)[kN]) const {
    Load(x + row * channels + c, terms);
  }
  TY_DEVICE void Store(int64_t c, Sum sum) const {
    const float variance = sum.squares / sum.count;
    mean[c] = sum.mean;
    scale[c] = 1.0f / std::sqrt(variance + epsilon);
    if (next_mean != nullptr) next_mean[c] = momentum * moving_mean[c] + (1.0f - momentum) * sum.mean;
    if (next_variance != nullptr) next_variance[c] = momentum * moving_variance[c] + (1.0f - momentum) * variance;
  }
};

// What the two passes of batch normalisation's backward read.
template <typename T>
struct Normalised {
  const T* dy;
  const T* x;
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* scale;
  int64_t channels;
  bool relu;

  int neighbours() const { return NeighboursIn(channels, dy, x, gamma, beta, mean, scale); }
};

// kN neighbours from element i on, of channels c ..: x normalised, and the gradient before relu.
template <int kN>
struct NormalisedAt {
  float value[kN], gradient[kN], gamma[kN], scale[kN];

  template <typename T>
  TY_DEVICE NormalisedAt(const Normalised<T>& normal, int64_t i, int64_t c) {
    float means[kN], betas[kN];
    Load(normal.x + i, value);
    Load(normal.dy + i, gradient);
    Load(normal.mean + c, means);
    Load(normal.scale + c, scale);
    Load(normal.gamma + c, gamma);
    Load(normal.beta + c, betas);
    for (int k = 0; k < kN; ++k) {
      value[k] = (value[k] - means[k]) * scale[k];
      if (normal.relu && value[k] * gamma[k] + betas[k] <= 0.0f) gradient[k] = 0.0f;
    }
  }
};

// Output c: the gradients of gamma and beta.
template <typename T>
struct NormSums {
  static constexpr bool kAcross = true;
  struct Sum {
    float gamma, beta;
  };
  Normalised<T> normal;
  float* dgamma;
  float* dbeta;

  TY_DEVICE static Sum Zero() { return {0.0f, 0.0f}; }
  TY_DEVICE static Sum Combine(Sum a, Sum b) { return {a.gamma + b.gamma, a.beta + b.beta}; }
  template <int kN>
  TY_DEVICE void Terms(int64_t c, int64_t row, Sum (&terms)[kN]) const {
    const NormalisedAt<kN> at(normal, row * normal.channels + c, c);
    for (int k = 0; k < kN; ++k) terms[k] = {at.gradient[k] * at.value[k], at.gradient[k]};
  }
  TY_DEVICE void Store(int64_t c, Sum sum) const {
    dgamma[c] = sum.gamma;
    dbeta[c] = sum.beta;
  }
};

// Output row: log(sum of exp(x)) of a row of `width`, in one pass and without overflow.
struct LogSumExp {
  static constexpr bool kAcross = false;
  struct Sum {
    float top, sum;  // sum of exp(x - top)
  };
  const float* x;
  float* log_sum;
  int64_t width;

  TY_DEVICE static Sum Zero() { return {-INFINITY, 0.0f}; }
  TY_DEVICE static Sum Combine(Sum a, Sum b) {
    if (a.sum == 0.0f) return b;
    if (b.sum == 0.0f) return a;
    if (a.top == b.top) return {a.top, a.sum + b.sum};
    const float top = std::fmax(a.top, b.top);
    return {top, a.sum * std::exp(a.top - top) + b.sum * std::exp(b.top - top)};
  }
  TY_DEVICE Sum Term(int64_t row, int64_t i) const { return {x[row * width + i], 1.0f}; }
  TY_DEVICE void Store(int64_t row, Sum sum) const { log_sum[row] = sum.top + std::log(sum.sum); }
};

// Output row: the sum of dy y.
struct RowDot : FloatSum {
  static constexpr bool kAcross = false;
  const float* dy;
  const float* y;
  float* dot;
  int64_t width;

  TY_DEVICE Sum Term(int64_t row, int64_t i) const { return dy[row * width + i] * y[row * width + i]; }
  TY_DEVICE void Store(int64_t row, Sum sum) const { dot[row] = sum; }
};

// Output row: 1 where the label has the highest score, the first of equal ones.
struct BestIsLabel {
  static constexpr bool kAcross = false;
  struct Sum {
    float score;
    int64_t place;
  };
  const float* scores;
  const int32_t* labels;
  float* hits;
  int64_t width;

  TY_DEVICE static Sum Zero() { return {-INFINITY, INT64_MAX}; }
  TY_DEVICE static Sum Combine(Sum a, Sum b) {
    const bool second = b.score > a.score || (b.score == a.score && b.place < a.place);
    return second ? b : a;
  }
  TY_DEVICE Sum Term(int64_t row, int64_t i) const { return {scores[row * width + i], i}; }
  TY_DEVICE void Store(int64_t row, Sum sum) const { hits[row] = sum.place == labels[row] ? 1.0f : 0.0f; }
};

// One output: the sum of x.
struct Total : FloatSum {
  static constexpr bool kAcross = false;
  const float* x;
  float* total;

  TY_DEVICE Sum Term(int64_t, int64_t i) const { return x[i]; }
  TY_DEVICE void Store(int64_t, Sum sum) const { *total = sum; }
};

// One output: the mean of -log(probability of the label).
struct CrossEntropy : FloatSum {
  static constexpr bool kAcross = false;
  const float* logits;
  const float* log_sum;
  const int32_t* labels;
  float* loss;
  int64_t width;
  float rows;

  TY_DEVICE Sum Term(int64_t, int64_t row) const { return log_sum[row] - logits[row * width + labels[row]]; }
  TY_DEVICE void Store(int64_t, Sum sum) const { *loss = sum / rows; }
};

// One output.
struct SquaredError : FloatSum {
  static constexpr bool kAcross = false;
  const float* prediction;
  const float* target;
  float* loss;
  float elements;

  TY_DEVICE Sum Term(int64_t, int64_t i) const { return (prediction[i] - target[i]) * (prediction[i] - target[i]); }
  TY_DEVICE void Store(int64_t, Sum sum) const { *loss = sum / elements; }
};

// One output: the sum of squares of some weights, one after the other, times l2, and `loss`.
struct Penalty : FloatSum {
  static constexpr bool kAcross = false;
  static constexpr int kMost = 16;
  const float* weights[kMost];
  int64_t ends[kMost];  // of each in the row of all
  const float* loss;
  float* penalised;
  float l2;

  TY_DEVICE Sum Term(int64_t, int64_t i) const {
    int k = 0;
    int64_t begin = 0;
    while (i >= ends[k]) begin = ends[k++];
    const float weight = weights[k][i - begin];
    return weight * weight;
  }
  TY_DEVICE void Store(int64_t, Sum sum) const { *penalised = *loss + l2 * sum; }
};

}  // namespace trainyard::engine::cuda
