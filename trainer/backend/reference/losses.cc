#include <algorithm>
#include <cmath>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {
namespace {

struct LogitRows {
  int64_t count;
  int64_t width;
};

LogitRows RowsOf(const Shape& shape) { return {shape.elements() / shape[-1], shape[-1]}; }

// log(sum of exp(x)), without overflow.
template <typename T>
T LogSumExp(int64_t width, const T* x) {
  const T top = *std::max_element(x, x + width);
  T sum{0};
  for (int64_t k = 0; k < width; ++k) sum += std::exp(x[k] - top);
  return top + std::log(sum);
}

// y = softmax(x), which may be in place; returns LogSumExp(x).
template <typename T>
T SoftmaxRow(int64_t width, const T* x, T* y) {
  const T log_sum = LogSumExp(width, x);
  for (int64_t k = 0; k < width; ++k) y[k] = std::exp(x[k] - log_sum);
  return log_sum;
}

}  // namespace

template <typename T>
RunFunction MakeRun(const SoftmaxOp&, const NodeView& node) {
  return [rows = RowsOf(node.out().shape)](const KernelContext& context) {
    for (int64_t row = 0; row < rows.count; ++row) {
      SoftmaxRow(rows.width, context.input<T>(0) + row * rows.width, context.output<T>(0) + row * rows.width);
    }
  };
}

template <typename T>
RunFunction MakeRun(const SoftmaxGradientOp&, const NodeView& node) {
  return [rows = RowsOf(node.out().shape)](const KernelContext& context) {
    for (int64_t row = 0; row < rows.count; ++row) {
      const T* dy = context.input<T>(0) + row * rows.width;
      const T* y = context.input<T>(1) + row * rows.width;
      T* dx = context.output<T>(0) + row * rows.width;
      T dot{0};
      for (int64_t k = 0; k < rows.width; ++k) dot += dy[k] * y[k];
      for (int64_t k = 0; k < rows.width; ++k) dx[k] = y[k] * (dy[k] - dot);
    }
  };
}

template <typename T>
RunFunction MakeRun(const SoftmaxCrossEntropyOp&, const NodeView& node) {
  return [rows = RowsOf(node.in(0).shape)](const KernelContext& context) {
    const T* logits = context.input<T>(0);
    const auto* labels = context.input<int32_t>(1);
    T* probabilities = context.output<T>(1);
    T sum{0};
    for (int64_t row = 0; row < rows.count; ++row, logits += rows.width) {
      sum -= logits[labels[row]];
      sum += probabilities == nullptr ? LogSumExp(rows.width, logits) : SoftmaxRow(rows.width, logits, probabilities + row * rows.width);
    }
    *context.output<T>(0) = sum / static_cast<T>(rows.count);
  };
}

template <typename T>
RunFunction MakeRun(const SoftmaxCrossEntropyGradientOp&, const NodeView& node) {
  return [rows = RowsOf(node.out().shape)](const KernelContext& context) {
    const T* probabilities = context.input<T>(0);
    const auto* labels = context.input<int32_t>(1);
    const T scale = *context.input<T>(2) / static_cast<T>(rows.count);
    T* dlogits = context.output<T>(0);
    for (int64_t row = 0; row < rows.count; ++row) {
      for (int64_t k = 0; k < rows.width; ++k) {
        const int64_t i = row * rows.width + k;
        dlogits[i] = (probabilities[i] - (labels[row] == k ? T{1} : T{0})) * scale;
      }
    }
  };
}

template <typename T>
RunFunction MakeRun(const CorrectCountOp&, const NodeView& node) {
  return [rows = RowsOf(node.in(0).shape)](const KernelContext& context) {
    const T* scores = context.input<T>(0);
    const auto* labels = context.input<int32_t>(1);
    int64_t correct = 0;
    for (int64_t row = 0; row < rows.count; ++row, scores += rows.width) {
      if (std::max_element(scores, scores + rows.width) - scores == labels[row]) ++correct;
    }
    *context.output<T>(0) = static_cast<T>(correct);
  };
}

template <typename T>
RunFunction MakeRun(const MeanSquaredErrorOp&, const NodeView& node) {
  return [elements = node.in(0).shape.elements()](const KernelContext& context) {
    const T* prediction = context.input<T>(0);
    const T* target = context.input<T>(1);
    T sum{0};
    for (int64_t i = 0; i < elements; ++i) sum += (prediction[i] - target[i]) * (prediction[i] - target[i]);
    *context.output<T>(0) = sum / static_cast<T>(elements);
  };
}

template <typename T>
RunFunction MakeRun(const MeanSquaredErrorGradientOp&, const NodeView& node) {
  return [elements = node.out().shape.elements()](const KernelContext& context) {
    const T* prediction = context.input<T>(0);
    const T* target = context.input<T>(1);
    const T scale = T{2} * *context.input<T>(2) / static_cast<T>(elements);
    T* gradient = context.output<T>(0);
    for (int64_t i = 0; i < elements; ++i) gradient[i] = (prediction[i] - target[i]) * scale;
  };
}

template RunFunction MakeRun<float>(const SoftmaxOp&, const NodeView&);
template RunFunction MakeRun<double>(const SoftmaxOp&, const NodeView&);
template RunFunction MakeRun<float>(const SoftmaxGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const SoftmaxGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const SoftmaxCrossEntropyOp&, const NodeView&);
template RunFunction MakeRun<double>(const SoftmaxCrossEntropyOp&, const NodeView&);
template RunFunction MakeRun<float>(const SoftmaxCrossEntropyGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const SoftmaxCrossEntropyGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const CorrectCountOp&, const NodeView&);
template RunFunction MakeRun<double>(const CorrectCountOp&, const NodeView&);
template RunFunction MakeRun<float>(const MeanSquaredErrorOp&, const NodeView&);
template RunFunction MakeRun<double>(const MeanSquaredErrorOp&, const NodeView&);
template RunFunction MakeRun<float>(const MeanSquaredErrorGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const MeanSquaredErrorGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
