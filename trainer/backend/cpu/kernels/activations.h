// The formulas of graph/activation.h for 16 values at once. An activation of that table without one
// here does not compile.
#pragma once

#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/vec.h"
#include "trainer/graph/activation.h"

namespace trainyard::engine {
namespace {

// Forward: y = f(x). Gradient: dy * f'(x) from y. NaN stays NaN in both.
template <Activation kActivation>
struct ActivationKernel;

template <>
struct ActivationKernel<Activation::kIdentity> {
  static V Forward(V x) { return x; }
  static V Gradient(V dy, V) { return dy; }
};

template <>
struct ActivationKernel<Activation::kTanh> {
  static V Forward(V x) { return Tanh(x); }
  static V Gradient(V dy, V y) { return dy * (1.0f - y * y); }
};

template <>
struct ActivationKernel<Activation::kRelu> {
  static V Forward(V x) { return Max(V{}, x); }
  static V Gradient(V dy, V y) { return Select(y <= V{}, V{}, dy); }
};

template <>
struct ActivationKernel<Activation::kSigmoid> {
  static V Forward(V x) { return Sigmoid(x); }
  static V Gradient(V dy, V y) { return dy * (y * (1.0f - y)); }
};

}  // namespace
}  // namespace trainyard::engine
