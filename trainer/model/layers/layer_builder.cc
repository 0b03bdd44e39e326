#include "trainer/model/layers/layer_builder.h"

#include <fmt/format.h>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr double kMaxElements = 1LL << 31;

}  // namespace

double Product(std::span<const int64_t> extents) {
  double product = 1;
  for (const int64_t extent : extents) product *= static_cast<double>(extent);
  return product;
}

absl::Status CheckElements(std::string_view what, double elements) {
  if (elements <= kMaxElements) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} would have {:.3g} elements, at most {:.3g} are allowed", what, elements, kMaxElements));
}

std::string ExampleText(const Shape& shape) { return Shape(shape.extents().subspan(1)).ToString(); }

std::string LayerBuilder::Name(std::string_view part) const { return fmt::format("{}/{}", name_, part); }

absl::StatusOr<Value> LayerBuilder::Parameter(const std::string& name, const Shape& shape, const StartValue& start, bool trainable) {
  TY_ASSIGN_OR_RETURN(const Value value, graph_.Parameter(name, shape, trainable));
  results_.starts.push_back(start);
  TY_CHECK(results_.starts.size() == graph_.graph().parameters().size());
  return value;
}

absl::StatusOr<Value> LayerBuilder::Kernel(const std::string& name, const Shape& shape, const WeightsSpec& weights) {
  TY_RETURN_IF_ERROR(CheckElements("the kernel", Product(shape.extents())));
  TY_ASSIGN_OR_RETURN(const Value kernel, Parameter(name, shape, {weights.kernel_initializer}));
  if (weights.kernel_l2 > 0) results_.penalties[static_cast<float>(weights.kernel_l2)].push_back(kernel);
  return kernel;
}

absl::StatusOr<Value> LayerBuilder::Finish(Value product, int64_t outputs, const WeightsSpec& weights, LayerActivation activation) {
  if (weights.use_bias) {
    TY_ASSIGN_OR_RETURN(const Value bias, Parameter(Name("bias"), Shape({outputs}), {weights.bias_initializer}));
    TY_ASSIGN_OR_RETURN(product, graph_.Bias(Name("bias_add"), product, bias));
  }
  return Activate(Name("activation"), product, activation);
}

absl::StatusOr<Value> LayerBuilder::Activate(const std::string& name, Value x, LayerActivation activation) {
  if (activation.softmax) return skip_softmax_ ? x : graph_.Softmax(name, x);
  if (activation.function == Activation::kIdentity) return x;
  return graph_.Activate(name, x, activation.function);
}

absl::Status LayerBuilder::WrongRank(std::string_view kind, std::string_view expected) const {
  return absl::InvalidArgumentError(fmt::format("{} takes {}, found an input of shape {}", kind, expected, ExampleText(InputShape())));
}

}  // namespace trainyard::engine
