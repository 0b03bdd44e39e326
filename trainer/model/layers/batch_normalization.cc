#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

// Over all axes but the last.
class BatchNormalization final : public Layer {
 public:
  explicit BatchNormalization(FieldReader& fields) {
    momentum_ = fields.Number("momentum", {.min = 0, .max = 1, .below = true}, 0.99);
    epsilon_ = fields.Number("epsilon", {.min = 1e-12, .max = 1e6}, 1e-3);
  }

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    const Shape input = builder.InputShape();
    if (input.rank() < 2) return builder.WrongRank("batchNormalization", "[.., channels]");
    BatchNormParameters p;
    const Shape channels({input[-1]});
    TY_ASSIGN_OR_RETURN(p.gamma, builder.Parameter(builder.Name("gamma"), channels, {Initializer::kOnes}));
    TY_ASSIGN_OR_RETURN(p.beta, builder.Parameter(builder.Name("beta"), channels, {Initializer::kZeros}));
    TY_ASSIGN_OR_RETURN(p.moving_mean,
                        builder.Parameter(builder.Name("moving_mean"), channels, {Initializer::kZeros}, /*trainable=*/false));
    TY_ASSIGN_OR_RETURN(p.moving_variance,
                        builder.Parameter(builder.Name("moving_variance"), channels, {Initializer::kOnes}, /*trainable=*/false));
    TY_ASSIGN_OR_RETURN(const Value y, builder.graph().BatchNorm(builder.name(), builder.input(), p, static_cast<float>(momentum_),
                                                                 static_cast<float>(epsilon_)));
    builder.NextValue(p.moving_mean, {y.node, 1});
    builder.NextValue(p.moving_variance, {y.node, 2});
    return y;
  }

 private:
  double momentum_;
  double epsilon_;
};

}  // namespace

LayerPointer ReadBatchNormalization(FieldReader& fields) { return std::make_shared<BatchNormalization>(fields); }

}  // namespace trainyard::engine
