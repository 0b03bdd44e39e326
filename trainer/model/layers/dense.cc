#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

// Over the last axis.
class Dense final : public Layer {
 public:
  explicit Dense(FieldReader& fields) {
    units_ = fields.Integer("units", kUnits);
    activation_ = ReadActivation(fields, "activation", LayerActivation());
    weights_ = ReadWeights(fields);
  }

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    const Shape input = builder.InputShape();
    if (input.rank() < 2) return builder.WrongRank("dense", "[features]");
    TY_ASSIGN_OR_RETURN(const Value kernel, builder.Kernel(builder.Name("kernel"), Shape({input[-1], units_}), weights_));
    TY_ASSIGN_OR_RETURN(const Value product, builder.graph().Dense(builder.name(), builder.input(), kernel));
    return builder.Finish(product, units_, weights_, activation_);
  }

 private:
  int64_t units_;
  LayerActivation activation_;
  WeightsSpec weights_;
};

}  // namespace

LayerPointer ReadDense(FieldReader& fields) { return std::make_shared<Dense>(fields); }

}  // namespace trainyard::engine
