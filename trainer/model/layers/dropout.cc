#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

class Dropout final : public Layer {
 public:
  explicit Dropout(double rate) : rate_(static_cast<float>(rate)) {}
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    return builder.graph().Dropout(builder.name(), builder.input(), rate_);
  }

 private:
  const float rate_;  // in [0, 1)
};

}  // namespace

LayerPointer ReadDropout(FieldReader& fields) {
  return std::make_shared<Dropout>(fields.Number("rate", {.min = 0, .max = 1, .below = true}));
}

}  // namespace trainyard::engine
