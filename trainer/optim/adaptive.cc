#include "trainer/optim/adaptive.h"

#include <cmath>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

// Checks the lengths of all spans and hands out what the loops work on.
struct Range {
  Range(std::span<float> param, std::span<const float> grad, std::span<const std::span<float>> slots, size_t slot_count)
      : size(param.size()), w(param.data()), g(grad.data()) {
    TY_CHECK(grad.size() == size && slots.size() == slot_count);
    for (const std::span<float>& slot : slots) TY_CHECK(slot.size() == size);
  }
  const size_t size;
  float* const w;
  const float* const g;
};

class Adagrad final : public Optimizer {
 public:
  Adagrad(double initial, double epsilon) : offset_(static_cast<float>(initial + epsilon)) {}

  std::vector<std::string> slot_names() const override { return {"accumulator"}; }
  // s + 0 = s and w - 0 / x = w, unless x may be 0.
  bool KeepsWhereGradientIsZero() const override { return offset_ > 0; }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    const Range range(param, grad, slots, 1);
    const float rate = static_cast<float>(context.learning_rate);
    const float offset = offset_;
    float* __restrict w = range.w;
    float* __restrict s = slots[0].data();
    const float* __restrict g = range.g;
    for (size_t i = 0; i < range.size; ++i) {
      s[i] += g[i] * g[i];
      w[i] -= rate * g[i] / std::sqrt(s[i] + offset);
    }
  }

 private:
  const float offset_;
};

class Adadelta final : public Optimizer {
 public:
  Adadelta(double rho, double epsilon)
      : rho_(static_cast<float>(rho)), rest_(static_cast<float>(1 - rho)), epsilon_(static_cast<float>(epsilon)) {}

  std::vector<std::string> slot_names() const override { return {"accumulator", "delta_accumulator"}; }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    const Range range(param, grad, slots, 2);
    const float rate = static_cast<float>(context.learning_rate);
    const float rho = rho_;
    const float rest = rest_;
    const float epsilon = epsilon_;
    float* __restrict w = range.w;
    float* __restrict s = slots[0].data();
    float* __restrict u = slots[1].data();
    const float* __restrict g = range.g;
    for (size_t i = 0; i < range.size; ++i) {
      s[i] = rho * s[i] + rest * (g[i] * g[i]);
      const float delta = g[i] * std::sqrt(u[i] + epsilon) / std::sqrt(s[i] + epsilon);
      u[i] = rho * u[i] + rest * (delta * delta);
      w[i] -= rate * delta;
    }
  }

 private:
  const float rho_;
  const float rest_;
  const float epsilon_;
};

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(double rho, double momentum, double epsilon)
      : rho_(static_cast<float>(rho)),
        rest_(static_cast<float>(1 - rho)),
        momentum_(static_cast<float>(momentum)),
        epsilon_(static_cast<float>(epsilon)) {}

  std::vector<std::string> slot_names() const override {
    if (momentum_ == 0) return {"mean_square"};
    return {"mean_square", "momentum"};
  }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    const Range range(param, grad, slots, momentum_ == 0 ? 1 : 2);
    const float rate = static_cast<float>(context.learning_rate);
    const float rho = rho_;
    const float rest = rest_;
    const float momentum = momentum_;
    const float epsilon = epsilon_;
    float* __restrict w = range.w;
    float* __restrict s = slots[0].data();
    const float* __restrict g = range.g;
    if (momentum == 0) {
      for (size_t i = 0; i < range.size; ++i) {
        s[i] = rho * s[i] + rest * (g[i] * g[i]);
        w[i] -= rate * g[i] / std::sqrt(s[i] + epsilon);
      }
      return;
    }
    float* __restrict v = slots[1].data();
    for (size_t i = 0; i < range.size; ++i) {
      s[i] = rho * s[i] + rest * (g[i] * g[i]);
      v[i] = momentum * v[i] + rate * g[i] / std::sqrt(s[i] + epsilon);
      w[i] -= v[i];
    }
  }

 private:
  const float rho_;
  const float rest_;
  const float momentum_;
  const float epsilon_;
};

class Adam final : public Optimizer {
 public:
  Adam(double beta1, double beta2, double epsilon) : beta1_(beta1), beta2_(beta2), epsilon_(static_cast<float>(epsilon)) {}

  std::vector<std::string> slot_names() const override { return {"mean", "mean_square"}; }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    const Range range(param, grad, slots, 2);
    const auto t = static_cast<double>(context.step + 1);
    const float alpha = static_cast<float>(context.learning_rate * std::sqrt(1 - std::pow(beta2_, t)) / (1 - std::pow(beta1_, t)));
    const float rest1 = static_cast<float>(1 - beta1_);
    const float rest2 = static_cast<float>(1 - beta2_);
    const float epsilon = epsilon_;
    float* __restrict w = range.w;
    float* __restrict m = slots[0].data();
    float* __restrict v = slots[1].data();
    const float* __restrict g = range.g;
    for (size_t i = 0; i < range.size; ++i) {
      m[i] += rest1 * (g[i] - m[i]);
      v[i] += rest2 * (g[i] * g[i] - v[i]);
      w[i] -= alpha * m[i] / (std::sqrt(v[i]) + epsilon);
    }
  }

 private:
  const double beta1_;
  const double beta2_;
  const float epsilon_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdagrad(double initial_accumulator, double epsilon) {
  return std::make_unique<Adagrad>(initial_accumulator, epsilon);
}
std::unique_ptr<Optimizer> MakeAdadelta(double rho, double epsilon) { return std::make_unique<Adadelta>(rho, epsilon); }
std::unique_ptr<Optimizer> MakeRmsprop(double rho, double momentum, double epsilon) {
  return std::make_unique<Rmsprop>(rho, momentum, epsilon);
}
std::unique_ptr<Optimizer> MakeAdam(double beta1, double beta2, double epsilon) { return std::make_unique<Adam>(beta1, beta2, epsilon); }

}  // namespace trainyard::engine
