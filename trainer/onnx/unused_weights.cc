#include "trainer/onnx/unused_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/printable.h"

namespace trainyard::engine {
namespace {

using Names = std::set<std::string_view>;

constexpr std::string_view kSupported = "import takes those of Conv, Gemm, MatMul and Add, BatchNormalization, Gather, LSTM, GRU and RNN";

// Operators that train weights, even where these are a single number.
const Names& WithWeights() {
  static const auto& names = *new Names{"ConvTranspose",      "DeformConv", "GroupNormalization", "InstanceNormalization",
                                        "LayerNormalization", "PRelu",      "RMSNormalization"};
  return names;
}

// Operators by which exporters write a change of the inputs.
const Names& TransformsOfInputs() {
  static const auto& names = *new Names{"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub", "Sum", "Where"};
  return names;
}

// Operators whose constants are sizes, although they are no whole numbers.
const Names& OfSizes() {
  static const auto& names = *new Names{"Resize", "Upsample"};
  return names;
}

}  // namespace

bool UnusedWeights::IsWeights(const std::string& tensor) const { return constants_.IsWeights(tensor) || of_weights_.contains(tensor); }

bool UnusedWeights::IsConstant(const std::string& tensor) const { return constants_.Has(tensor) || made_.contains(tensor); }

absl::Status UnusedWeights::Check(const onnx::NodeProto& node, bool taken) {
  if (node.op_type() == "Constant") return absl::OkStatus();
  if (WithWeights().contains(node.op_type())) {
    return absl::InvalidArgumentError(fmt::format("is an operator with weights that no layer here has; {}", kSupported));
  }
  const auto given = [](const std::string& input) { return !input.empty(); };
  const auto weights = std::ranges::find_if(node.input(), [this](const std::string& input) { return IsWeights(input); });
  const bool has_weights = weights != node.input().end();
  const bool behind = std::ranges::any_of(node.input(), [this](const std::string& input) { return behind_.contains(input); });
  const bool of_constants = node.input_size() > 0 &&
                            std::ranges::all_of(node.input(), [&](const std::string& input) { return !given(input) || IsConstant(input); });
  const bool transforms = !behind && TransformsOfInputs().contains(node.op_type());
  if (has_weights && !taken && !of_constants && !transforms && !OfSizes().contains(node.op_type())) {
    return absl::InvalidArgumentError(
        fmt::format("has the weights '{:.200}', which no layer here takes; {}", Printable(*weights), kSupported));
  }
  for (const std::string& output : node.output()) {
    if (taken || behind) behind_.insert(output);
    if (of_constants && !taken) made_.insert(output);
    if (of_constants && !taken && has_weights) of_weights_.insert(output);
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
