#include <cmath>
#include <vector>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {
namespace {

// All axes but the last in one.
struct Rows {
  int64_t count;
  int64_t channels;
  explicit Rows(const Shape& shape) : count(shape.elements() / shape[-1]), channels(shape[-1]) {}
};

template <typename T>
struct Moments {
  T mean;
  T variance;
};

template <typename T>
Moments<T> BatchMoments(Rows rows, const T* x, int64_t channel) {
  T sum{0};
  for (int64_t row = 0; row < rows.count; ++row) sum += x[row * rows.channels + channel];
  const T mean = sum / static_cast<T>(rows.count);
  T squares{0};
  for (int64_t row = 0; row < rows.count; ++row) {
    const T distance = x[row * rows.channels + channel] - mean;
    squares += distance * distance;
  }
  return {mean, squares / static_cast<T>(rows.count)};
}

// outputs[i] may be null: nothing reads it.
template <typename T>
void StoreAt(const KernelContext& context, int output, int64_t channel, T value) {
  if (T* to = context.output<T>(output)) to[channel] = value;
}

}  // namespace

template <typename T>
RunFunction MakeRun(const BatchNormOp& op, const NodeView& node) {
  return [op, rows = Rows(node.out().shape)](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    const T momentum = static_cast<T>(op.momentum);
    for (int64_t c = 0; c < rows.channels; ++c) {
      const Moments<T> moving = {context.input<T>(3)[c], context.input<T>(4)[c]};
      const bool training = context.step.training;
      const Moments<T> used = training ? BatchMoments(rows, x, c) : moving;
      const T scale = T{1} / std::sqrt(used.variance + static_cast<T>(op.epsilon));
      const T gamma = context.input<T>(1)[c];
      const T beta = context.input<T>(2)[c];
      for (int64_t i = c; i < rows.count * rows.channels; i += rows.channels) {
        const T z = (x[i] - used.mean) * scale * gamma + beta;
        y[i] = op.relu && z <= T{0} ? T{0} : z;  // NaN stays NaN
      }
      StoreAt(context, 1, c, training ? momentum * moving.mean + (T{1} - momentum) * used.mean : moving.mean);
      StoreAt(context, 2, c, training ? momentum * moving.variance + (T{1} - momentum) * used.variance : moving.variance);
      StoreAt(context, 3, c, used.mean);
      StoreAt(context, 4, c, scale);
    }
  };
}

template <typename T>
RunFunction MakeRun(const BatchNormGradientOp& op, const NodeView& node) {
  return [op, rows = Rows(node.out().shape)](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    const T* x = context.input<T>(1);
    T* dx = context.output<T>(0);
    const auto count = static_cast<T>(rows.count);
    const int64_t elements = rows.count * rows.channels;
    for (int64_t c = 0; c < rows.channels; ++c) {
      const T gamma = context.input<T>(2)[c];
      const T beta = context.input<T>(3)[c];
      const T mean = context.input<T>(4)[c];
      const T scale = context.input<T>(5)[c];
      // x normalised, and the gradient before relu.
      const auto normal = [&](int64_t i) { return (x[i] - mean) * scale; };
      const auto dz = [&](int64_t i) { return op.relu && normal(i) * gamma + beta <= T{0} ? T{0} : dy[i]; };
      T dgamma{0};
      T dbeta{0};
      for (int64_t i = c; i < elements; i += rows.channels) {
        dgamma += dz(i) * normal(i);
        dbeta += dz(i);
      }
      for (int64_t i = c; i < elements; i += rows.channels) {
        dx[i] = gamma * scale * (dz(i) - dbeta / count - normal(i) * dgamma / count) + (op.add ? context.input<T>(6)[i] : T{0});
      }
      StoreAt(context, 1, c, dgamma);
      StoreAt(context, 2, c, dbeta);
    }
  };
}

template RunFunction MakeRun<float>(const BatchNormOp&, const NodeView&);
template RunFunction MakeRun<double>(const BatchNormOp&, const NodeView&);
template RunFunction MakeRun<float>(const BatchNormGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const BatchNormGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
