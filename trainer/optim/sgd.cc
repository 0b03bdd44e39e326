#include "trainer/optim/sgd.h"

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

class Sgd final : public Optimizer {
 public:
  std::vector<std::string> slot_names() const override { return {}; }
  bool KeepsWhereGradientIsZero() const override { return true; }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    TY_CHECK(slots.empty() && grad.size() == param.size());
    const float rate = static_cast<float>(context.learning_rate);
    float* __restrict w = param.data();
    const float* __restrict g = grad.data();
    for (size_t i = 0; i < param.size(); ++i) w[i] -= rate * g[i];
  }
};

class Momentum final : public Optimizer {
 public:
  Momentum(double momentum, bool nesterov) : momentum_(static_cast<float>(momentum)), nesterov_(nesterov) {}

  std::vector<std::string> slot_names() const override { return {"momentum"}; }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    TY_CHECK(slots.size() == 1 && slots[0].size() == param.size() && grad.size() == param.size());
    const float rate = static_cast<float>(context.learning_rate);
    const float m = momentum_;
    float* __restrict w = param.data();
    float* __restrict v = slots[0].data();
    const float* __restrict g = grad.data();
    if (nesterov_) {
      for (size_t i = 0; i < param.size(); ++i) {
        const float push = rate * g[i];
        v[i] = m * v[i] - push;
        w[i] += m * v[i] - push;
      }
    } else {
      for (size_t i = 0; i < param.size(); ++i) {
        v[i] = m * v[i] - rate * g[i];
        w[i] += v[i];
      }
    }
  }

 private:
  const float momentum_;
  const bool nesterov_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd() { return std::make_unique<Sgd>(); }

std::unique_ptr<Optimizer> MakeMomentum(double momentum, bool nesterov) { return std::make_unique<Momentum>(momentum, nesterov); }

}  // namespace trainyard::engine
