#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

class Conv2d final : public Layer {
 public:
  explicit Conv2d(FieldReader& fields) {
    filters_ = fields.Integer("filters", kChannels);
    window_.size = ReadPair(fields, "kernelSize", std::nullopt);
    window_.stride = ReadPair(fields, "strides", window_.stride);
    window_.padding = ReadPadding(fields);
    activation_ = ReadActivation(fields, "activation", LayerActivation());
    weights_ = ReadWeights(fields);
  }

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    const Shape input = builder.InputShape();
    if (input.rank() != 4) return builder.WrongRank("conv2d", "[height, width, channels]");
    const Shape shape({window_.size[0], window_.size[1], input[3], filters_});
    TY_ASSIGN_OR_RETURN(const Value kernel, builder.Kernel(builder.Name("kernel"), shape, weights_));
    TY_ASSIGN_OR_RETURN(const Value product,
                        builder.graph().Conv2d(builder.name(), builder.input(), kernel, window_.stride, window_.padding));
    return builder.Finish(product, filters_, weights_, activation_);
  }

 private:
  int64_t filters_;
  Window window_;
  LayerActivation activation_;
  WeightsSpec weights_;
};

}  // namespace

LayerPointer ReadConv2d(FieldReader& fields) { return std::make_shared<Conv2d>(fields); }

}  // namespace trainyard::engine
