// The activations, one row each. To add one: an enumerator and a row here, its vector formula in
// backend/cpu/kernels/activations.h. Nothing compiles without both; job files, fusion, all
// backends and the tests of all activations take it from here. Its functions are constexpr for
// nvcc: it lets kernels call those.
#pragma once

#include <stdint.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace trainyard::engine {

enum class Activation : uint8_t { kIdentity, kTanh, kRelu, kSigmoid, kCount };
inline constexpr int kActivations = static_cast<int>(Activation::kCount);

// The row of an activation: kName, its name in a job file; Forward, y = f(x); Slope, f'(x) from y,
// for T float or double. The formulas are the definition: the reference backend runs them. f never
// falls, so max-pooling commutes with it. y alone gives the slope, so backward passes keep y only.
template <Activation kActivation>
struct ActivationRow;

template <>
struct ActivationRow<Activation::kIdentity> {
  static constexpr const char* kName = "identity";
  template <typename T>
  static constexpr T Forward(T x) {
    return x;
  }
  template <typename T>
  static constexpr T Slope(T) {
    return T{1};
  }
};

template <>
struct ActivationRow<Activation::kTanh> {
  static constexpr const char* kName = "tanh";
  template <typename T>
  static constexpr T Forward(T x) {
    return std::tanh(x);
  }
  template <typename T>
  static constexpr T Slope(T y) {
    return T{1} - y * y;
  }
};

template <>
struct ActivationRow<Activation::kRelu> {
  static constexpr const char* kName = "relu";
  template <typename T>
  static constexpr T Forward(T x) {
    return std::max(x, T{0});
  }
  template <typename T>
  static constexpr T Slope(T y) {
    return y > T{0} ? T{1} : T{0};
  }
};

template <>
struct ActivationRow<Activation::kSigmoid> {
  static constexpr const char* kName = "sigmoid";
  template <typename T>
  static constexpr T Forward(T x) {
    return T{1} / (T{1} + std::exp(-x));
  }
  template <typename T>
  static constexpr T Slope(T y) {
    return y * (T{1} - y);
  }
};

// Calls visit.operator()<A>() for each A of the table, in order.
template <typename Visit>
constexpr void VisitActivations(const Visit& visit) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    (visit.template operator()<static_cast<Activation>(kIndex)>(), ...);
  }(std::make_integer_sequence<int, kActivations>());
}

// Calls visit.operator()<A>() with A = activation: from a value to code that is compiled for it.
template <typename Visit>
constexpr void VisitActivation(Activation activation, const Visit& visit) {
  VisitActivations([&]<Activation kActivation>() {
    if (activation == kActivation) visit.template operator()<kActivation>();
  });
}

}  // namespace trainyard::engine
