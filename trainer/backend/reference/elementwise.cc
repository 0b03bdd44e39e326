#include <algorithm>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {

template <typename T>
T Activate(Activation activation, T x) {
  T y{};
  VisitActivation(activation, [&]<Activation kActivation>() { y = ActivationRow<kActivation>::Forward(x); });
  return y;
}

template <typename T>
T ActivationSlope(Activation activation, T y) {
  T slope{};
  VisitActivation(activation, [&]<Activation kActivation>() { slope = ActivationRow<kActivation>::Slope(y); });
  return slope;
}

template <typename T>
void AddBias(int64_t rows, int64_t channels, const T* x, const T* bias, T* y) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < channels; ++c) y[row * channels + c] = x[row * channels + c] + bias[c];
  }
}

template <typename T>
void SumRows(int64_t rows, int64_t channels, const T* dy, T* db) {
  std::fill_n(db, channels, T{0});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < channels; ++c) db[c] += dy[row * channels + c];
  }
}

template <typename T>
RunFunction MakeRun(const LossScaleOp&, const NodeView&) {
  return [](const KernelContext& context) { *context.output<T>(0) = static_cast<T>(context.step.loss_scale); };
}

template <typename T>
RunFunction MakeRun(const BiasOp&, const NodeView& node) {
  const int64_t channels = node.in(1).shape[0];
  return [channels, rows = node.out().shape.elements() / channels](const KernelContext& context) {
    AddBias(rows, channels, context.input<T>(0), context.input<T>(1), context.output<T>(0));
  };
}

template <typename T>
RunFunction MakeRun(const BiasGradientOp&, const NodeView& node) {
  const int64_t channels = node.out().shape[0];
  return [channels, rows = node.in(0).shape.elements() / channels](const KernelContext& context) {
    SumRows(rows, channels, context.input<T>(0), context.output<T>(0));
  };
}

template <typename T>
RunFunction MakeRun(const ActivationOp& op, const NodeView& node) {
  return [activation = op.activation, elements = node.out().shape.elements()](const KernelContext& context) {
    const T* x = context.input<T>(0);
    T* y = context.output<T>(0);
    for (int64_t i = 0; i < elements; ++i) y[i] = Activate(activation, x[i]);
  };
}

template <typename T>
RunFunction MakeRun(const ActivationGradientOp& op, const NodeView& node) {
  return [activation = op.activation, elements = node.out().shape.elements()](const KernelContext& context) {
    const T* dy = context.input<T>(0);
    const T* y = context.input<T>(1);
    T* dx = context.output<T>(0);
    for (int64_t i = 0; i < elements; ++i) dx[i] = dy[i] * ActivationSlope(activation, y[i]);
  };
}

template <typename T>
RunFunction MakeRun(const AddOp&, const NodeView& node) {
  return [terms = node.input_count(), elements = node.out().shape.elements()](const KernelContext& context) {
    T* y = context.output<T>(0);
    for (int64_t i = 0; i < elements; ++i) {
      T sum = context.input<T>(0)[i];
      for (int term = 1; term < terms; ++term) sum += context.input<T>(term)[i];
      y[i] = sum;
    }
  };
}

template float Activate(Activation, float);
template double Activate(Activation, double);
template float ActivationSlope(Activation, float);
template double ActivationSlope(Activation, double);
template void AddBias(int64_t, int64_t, const float*, const float*, float*);
template void AddBias(int64_t, int64_t, const double*, const double*, double*);
template void SumRows(int64_t, int64_t, const float*, float*);
template void SumRows(int64_t, int64_t, const double*, double*);
template RunFunction MakeRun<float>(const LossScaleOp&, const NodeView&);
template RunFunction MakeRun<double>(const LossScaleOp&, const NodeView&);
template RunFunction MakeRun<float>(const BiasOp&, const NodeView&);
template RunFunction MakeRun<double>(const BiasOp&, const NodeView&);
template RunFunction MakeRun<float>(const BiasGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const BiasGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const ActivationOp&, const NodeView&);
template RunFunction MakeRun<double>(const ActivationOp&, const NodeView&);
template RunFunction MakeRun<float>(const ActivationGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const ActivationGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const AddOp&, const NodeView&);
template RunFunction MakeRun<double>(const AddOp&, const NodeView&);

}  // namespace trainyard::engine::reference
