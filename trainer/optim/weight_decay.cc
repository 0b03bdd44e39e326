#include "trainer/optim/weight_decay.h"

#include <utility>

namespace trainyard::engine {
namespace {

class WeightDecay final : public Optimizer {
 public:
  WeightDecay(double decay, std::unique_ptr<Optimizer> inner) : decay_(decay), inner_(std::move(inner)) {}

  std::vector<std::string> slot_names() const override { return inner_->slot_names(); }

  void Apply(const UpdateContext& context, std::span<float> param, std::span<const float> grad,
             std::span<const std::span<float>> slots) const override {
    const float shrink = static_cast<float>(context.learning_rate * decay_);
    for (float& value : param) value -= value * shrink;
    inner_->Apply(context, param, grad, slots);
  }

 private:
  const double decay_;
  const std::unique_ptr<Optimizer> inner_;
};

}  // namespace

std::unique_ptr<Optimizer> MakeWeightDecay(double decay, std::unique_ptr<Optimizer> inner) {
  return std::make_unique<WeightDecay>(decay, std::move(inner));
}

}  // namespace trainyard::engine
