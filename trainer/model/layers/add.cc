#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

// Two or more inputs of one shape.
class Add final : public Layer {
 public:
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    if (builder.inputs().size() < 2) return absl::InvalidArgumentError("found 1 input, expected two or more in `inputs`");
    return builder.graph().Add(builder.name(), builder.inputs());
  }
  bool takes_several_inputs() const override { return true; }
};

}  // namespace

LayerPointer ReadAdd(FieldReader&) { return std::make_shared<Add>(); }

}  // namespace trainyard::engine
