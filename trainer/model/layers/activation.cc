#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

class ActivationLayer final : public Layer {
 public:
  explicit ActivationLayer(LayerActivation function) : function_(function) {}
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override { return builder.Activate(builder.name(), builder.input(), function_); }

 private:
  const LayerActivation function_;
};

}  // namespace

LayerPointer ReadActivationLayer(FieldReader& fields) {
  return std::make_shared<ActivationLayer>(ReadActivation(fields, "function", std::nullopt));
}

}  // namespace trainyard::engine
