#include "trainer/model/layers/kinds.h"

namespace trainyard::engine {
namespace {

class Flatten final : public Layer {
 public:
  absl::StatusOr<Value> Build(LayerBuilder& builder) const override { return builder.graph().Flatten(builder.name(), builder.input()); }
};

}  // namespace

LayerPointer ReadFlatten(FieldReader&) { return std::make_shared<Flatten>(); }

}  // namespace trainyard::engine
