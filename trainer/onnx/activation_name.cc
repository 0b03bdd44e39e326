#include "trainer/onnx/activation_name.h"

namespace trainyard::engine {

std::string_view OnnxActivation(Activation activation) {
  switch (activation) {
    case Activation::kTanh:
      return "Tanh";
    case Activation::kRelu:
      return "Relu";
    case Activation::kSigmoid:
      return "Sigmoid";
    case Activation::kIdentity:
    case Activation::kCount:
      break;
  }
  return "";
}

}  // namespace trainyard::engine
