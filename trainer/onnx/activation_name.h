// ONNX's names of activations.
#pragma once

#include <string_view>

#include "trainer/graph/activation.h"

namespace trainyard::engine {

// The operator, which is also the name of a recurrent operator's activation. "": the identity,
// which has none.
std::string_view OnnxActivation(Activation activation);

}  // namespace trainyard::engine
