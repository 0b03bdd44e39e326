// Bodies of an optimizer's step over all parameters, which lie side by side: the rules of
// trainer/optim, whose files name their sources. What differs from step to step is read from the
// device's memory, so that a recorded step follows it.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"
#include "trainer/backend/step_outcome.h"

namespace trainyard::engine::cuda {

// Of a step, from the host.
struct UpdateNumbers {
  float rate;    // the learning rate
  float alpha;   // adam: the rate with the correction of both means
  float shrink;  // the learning rate times the weight decay
  float weight;  // of the device's gradients in the sum over several devices
};

// What the device finds of a step.
struct OutcomeOnDevice {
  float loss;
  float verdict;  // a StepOutcome::Verdict
  float scale;    // of all gradients

  TY_DEVICE bool Is(StepOutcome::Verdict of_step) const { return verdict == static_cast<float>(of_step); }
  TY_DEVICE bool good() const { return Is(StepOutcome::Verdict::kGood); }
};

struct JudgeLoss {
  const float* loss;
  OutcomeOnDevice* outcome;

  TY_DEVICE void operator()(int64_t /*i*/) const {
    const auto verdict = std::isfinite(*loss) ? StepOutcome::Verdict::kGood : StepOutcome::Verdict::kNotFinite;
    *outcome = {*loss, static_cast<float>(verdict), 1.0f};
  }
};

// The sum of squares of all gradients, and what follows from it.
struct JudgeGradients {
  static constexpr bool kAcross = false;
  using Sum = double;
  const float* gradients;
  const float* loss;
  OutcomeOnDevice* outcome;
  double clip_norm;         // 0: nothing is clipped
  bool skips;               // a gradient that is not finite counts
  const float* loss_scale;  // of the gradients, where the precision has one: then they count, too; else null

  TY_DEVICE static Sum Zero() { return 0.0; }
  TY_DEVICE static Sum Combine(Sum a, Sum b) { return a + b; }
  TY_DEVICE Sum Term(int64_t /*output*/, int64_t i) const { return static_cast<double>(gradients[i]) * gradients[i]; }
  TY_DEVICE void Store(int64_t /*output*/, Sum sum) const {
    const float scaled = loss_scale != nullptr ? *loss_scale : 1.0f;
    const double norm = std::sqrt(sum) / scaled;
    const bool known = std::isfinite(norm);
    const bool clips = clip_norm > 0 && known && norm > clip_norm;
    auto verdict = StepOutcome::Verdict::kGood;
    if (!known && (skips || loss_scale != nullptr)) {
      verdict = scaled > 1.0f ? StepOutcome::Verdict::kOverflow : StepOutcome::Verdict::kNotFinite;
    }
    if (!std::isfinite(*loss)) verdict = StepOutcome::Verdict::kNotFinite;
    *outcome = {*loss, static_cast<float>(verdict), (clips ? static_cast<float>(clip_norm / norm) : 1.0f) / scaled};
  }
};

// Both are for one of several devices, before its gradients are added to those of the others. Each
// rounds once, as on the host.
struct Weigh {
  float* gradients;
  const UpdateNumbers* numbers;

  TY_DEVICE void operator()(int64_t i) const {
    if (numbers->weight != 1.0f) gradients[i] *= numbers->weight;
  }
};

struct Clip {
  float* gradients;
  const OutcomeOnDevice* outcome;

  TY_DEVICE void operator()(int64_t i) const {
    if (outcome->scale != 1.0f) gradients[i] *= outcome->scale;
  }
};

// The mean over several devices of a stretch of their results, by the tree of
// collectives/tree_order.h. `addends` is null for a device without examples, and for one that does
// not exist.
struct MeanOverDevices {
  static constexpr int kMost = 16;
  const float* addends[kMost];
  float* mean;
  int64_t gradients;  // so many come first, next values after them
  float divisor;      // of gradients
  float divisor_of_values;

  TY_DEVICE void operator()(int64_t i) const {
    float sums[kMost];
    bool any[kMost];
    for (int rank = 0; rank < kMost; ++rank) {
      any[rank] = addends[rank] != nullptr;
      sums[rank] = any[rank] ? addends[rank][i] : 0.0f;
    }
    // Neighbours, then neighbours of those: the powers of two at which the tree cuts.
    for (int half = 1; half < kMost; half *= 2) {
      for (int rank = 0; rank + half < kMost; rank += 2 * half) {
        if (!any[rank + half]) continue;
        sums[rank] = any[rank] ? sums[rank] + sums[rank + half] : sums[rank + half];
        any[rank] = true;
      }
    }
    mean[i] = sums[0] / (i < gradients ? divisor : divisor_of_values);
  }
};

// What all rules begin with.
struct UpdateInput {
  float* w;
  const float* g;
  const UpdateNumbers* numbers;
  const OutcomeOnDevice* outcome;
  bool skips;  // a step that is not finite has gradients of 0; else it changes nothing

  TY_DEVICE bool applies() const { return outcome->good() || (skips && outcome->Is(StepOutcome::Verdict::kNotFinite)); }
  TY_DEVICE float Gradient(int64_t i) const { return outcome->good() ? g[i] * outcome->scale : 0.0f; }
  TY_DEVICE float Weight(int64_t i) const { return w[i] - w[i] * numbers->shrink; }
};

struct SgdUpdate {
  UpdateInput in;

  TY_DEVICE void operator()(int64_t i) const {
    if (in.applies()) in.w[i] = in.Weight(i) - in.numbers->rate * in.Gradient(i);
  }
};

struct MomentumUpdate {
  UpdateInput in;
  float* v;
  float momentum;
  bool nesterov;

  TY_DEVICE void operator()(int64_t i) const {
    if (!in.applies()) return;
    const float push = in.numbers->rate * in.Gradient(i);
    v[i] = momentum * v[i] - push;
    in.w[i] = in.Weight(i) + (nesterov ? momentum * v[i] - push : v[i]);
  }
};

struct AdagradUpdate {
  UpdateInput in;
  float* s;
  float offset;

  TY_DEVICE void operator()(int64_t i) const {
    if (!in.applies()) return;
    const float g = in.Gradient(i);
    s[i] += g * g;
    in.w[i] = in.Weight(i) - in.numbers->rate * g / std::sqrt(s[i] + offset);
  }
};

struct AdadeltaUpdate {
  UpdateInput in;
  float* s;
  float* u;
  float rho, rest, epsilon;

  TY_DEVICE void operator()(int64_t i) const {
    if (!in.applies()) return;
    const float g = in.Gradient(i);
    s[i] = rho * s[i] + rest * (g * g);
    const float delta = g * std::sqrt(u[i] + epsilon) / std::sqrt(s[i] + epsilon);
    u[i] = rho * u[i] + rest * (delta * delta);
    in.w[i] = in.Weight(i) - in.numbers->rate * delta;
  }
};

// v is null where there is no momentum.
struct RmspropUpdate {
  UpdateInput in;
  float* s;
  float* v;
  float rho, rest, momentum, epsilon;

  TY_DEVICE void operator()(int64_t i) const {
    if (!in.applies()) return;
    const float g = in.Gradient(i);
    s[i] = rho * s[i] + rest * (g * g);
    float step = in.numbers->rate * g / std::sqrt(s[i] + epsilon);
    if (v != nullptr) step = v[i] = momentum * v[i] + step;
    in.w[i] = in.Weight(i) - step;
  }
};

struct AdamUpdate {
  UpdateInput in;
  float* m;
  float* v;
  float rest1, rest2, epsilon;

  TY_DEVICE void operator()(int64_t i) const {
    if (!in.applies()) return;
    const float g = in.Gradient(i);
    m[i] += rest1 * (g - m[i]);
    v[i] += rest2 * (g * g - v[i]);
    in.w[i] = in.Weight(i) - in.numbers->alpha * m[i] / (std::sqrt(v[i]) + epsilon);
  }
};

// Next values of what no optimizer changes.
struct TakeValues {
  const float* next;
  float* values;
  const OutcomeOnDevice* outcome;

  TY_DEVICE void operator()(int64_t i) const {
    if (outcome->good()) values[i] = next[i];
  }
};

}  // namespace trainyard::engine::cuda
