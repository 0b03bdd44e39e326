// One layer of a model, as its own file reads it from a job file (kinds.h).
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/model/layers/layer_builder.h"

namespace trainyard::engine {

// Immutable: any number of models and threads may share it.
class Layer {
 public:
  virtual ~Layer() = default;
  // Adds the layer's parameters, with their start values, and its nodes; gives its output.
  // InvalidArgument says which shape does not fit.
  virtual absl::StatusOr<Value> Build(LayerBuilder& builder) const = 0;
  virtual bool takes_several_inputs() const { return false; }
  // Why the layer cannot go on with a sequence step by step, as the end of a sentence ("is
  // bidirectional"); empty: it can.
  virtual std::string_view why_not_stepwise() const { return {}; }
  // The same layer, but it carries its state from one run to the next; null: this one does so, or
  // has no state.
  virtual std::shared_ptr<const Layer> Carrying() const { return nullptr; }
};

using LayerPointer = std::shared_ptr<const Layer>;

}  // namespace trainyard::engine
