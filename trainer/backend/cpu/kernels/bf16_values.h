// Element by element on values in pairs of channels. The arithmetic is f32, results are rounded.
#pragma once

#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/bf16_pairs.h"

namespace trainyard::engine {
namespace {

template <typename Round>
struct PairValues {
  using Pairs = PairPanels<Round>;
  static constexpr int kStep = 2 * kLanes;  // elements of a vector of pairs

  static void FromWide(const float* x, uint16_t* y, int64_t vectors) {
    for (int64_t i = 0; i < vectors * kLanes; i += kStep) {
      const V values[2] = {Load(x + i), Load(x + i + kLanes)};
      Pairs::Store(y + i, values);
    }
  }

  static void SumFromWide(const float* x, const uint16_t* add, uint16_t* y, int64_t vectors, Activation activation) {
    VisitActivation(activation, [&]<Activation kActivation>() {
      for (int64_t i = 0; i < vectors * kLanes; i += kStep) {
        V values[2];
        Pairs::Load(add + i, values);
        for (int j = 0; j < 2; ++j) values[j] = ActivationKernel<kActivation>::Forward(Load(x + i + j * kLanes) + values[j]);
        Pairs::Store(y + i, values);
      }
    });
  }

  static void ToWide(const uint16_t* x, float* y, int64_t vectors) {
    for (int64_t i = 0; i < vectors * kLanes; i += kStep) {
      V values[2];
      Pairs::Load(x + i, values);
      Store(y + i, values[0]);
      Store(y + i + kLanes, values[1]);
    }
  }

  static void Add(const uint16_t* const* terms, int count, uint16_t* y, int64_t begin, int64_t end) {
    for (int64_t i = begin * kLanes; i < end * kLanes; i += kStep) {
      V sum[2], term[2];
      Pairs::Load(terms[0] + i, sum);
      for (int t = 1; t < count; ++t) {
        Pairs::Load(terms[t] + i, term);
        for (int j = 0; j < 2; ++j) sum[j] += term[j];
      }
      Pairs::Store(y + i, sum);
    }
  }

  static void Activate(const uint16_t* x, uint16_t* y, int64_t vectors, Activation activation) {
    VisitActivation(activation, [&]<Activation kActivation>() {
      for (int64_t i = 0; i < vectors * kLanes; i += kStep) {
        V values[2];
        Pairs::Load(x + i, values);
        for (V& value : values) value = ActivationKernel<kActivation>::Forward(value);
        Pairs::Store(y + i, values);
      }
    });
  }

  static void ActivateGradient(const uint16_t* dy, const uint16_t* y, uint16_t* dx, int64_t vectors, Activation activation) {
    VisitActivation(activation, [&]<Activation kActivation>() {
      for (int64_t i = 0; i < vectors * kLanes; i += kStep) {
        V slopes[2], values[2];
        Pairs::Load(y + i, slopes);
        Pairs::Load(dy + i, values);
        for (int j = 0; j < 2; ++j) values[j] = ActivationKernel<kActivation>::Gradient(values[j], slopes[j]);
        Pairs::Store(dx + i, values);
      }
    });
  }
};

}  // namespace
}  // namespace trainyard::engine
