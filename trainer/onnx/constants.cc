#include "trainer/onnx/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "trainer/base/printable.h"
#include "trainer/base/status_macros.h"
#include "trainer/tensor/permute.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 29;  // 2 GiB of float32

absl::Status Wrong(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("tensor '{:.200}' {}", Printable(std::string(name)), what));
}

absl::StatusOr<Shape> ShapeOf(const onnx::TensorProto& tensor, std::string_view name) {
  if (tensor.dims_size() > Shape::kMaxRank)
    return Wrong(name, fmt::format("has {} axes, expected at most {}", tensor.dims_size(), Shape::kMaxRank));
  int64_t elements = 1;
  for (const int64_t extent : tensor.dims()) {
    // An extent of 0 must not hide the others: a permutation takes the product of some.
    if (extent < 0 || extent > kMostElements || elements * std::max<int64_t>(extent, 1) > kMostElements) {
      return Wrong(name, fmt::format("has an extent of {}, expected at most {} elements in all", extent, kMostElements));
    }
    elements *= std::max<int64_t>(extent, 1);
  }
  return Shape(std::span(tensor.dims().data(), static_cast<size_t>(tensor.dims_size())));
}

// The permutation of a Transpose; nothing where it is none of `rank` axes.
std::optional<std::vector<int>> AxesOf(const onnx::NodeProto& node, int rank) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  const onnx::AttributeProto* perm = FindAttribute(node, "perm");
  if (perm == nullptr) {
    std::ranges::reverse(axes);
    return axes;
  }
  std::vector<int> found;
  for (const int64_t axis : perm->ints()) {
    if (axis < 0 || axis >= rank) return std::nullopt;
    found.push_back(static_cast<int>(axis));
  }
  std::vector<int> sorted = found;
  std::ranges::sort(sorted);
  return sorted == axes ? std::optional(found) : std::nullopt;
}

}  // namespace

const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name) {
  const auto found = std::ranges::find(node.attribute(), name, [](const onnx::AttributeProto& a) -> std::string_view { return a.name(); });
  return found == node.attribute().end() ? nullptr : &*found;
}

int64_t IntegerOf(const onnx::NodeProto& node, std::string_view name, int64_t fallback) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? fallback : attribute->i();
}

float NumberOf(const onnx::NodeProto& node, std::string_view name, float fallback) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? fallback : attribute->f();
}

std::string TextOf(const onnx::NodeProto& node, std::string_view name, std::string_view fallback) {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

OnnxConstants::OnnxConstants(const onnx::GraphProto& graph, int64_t most_elements) : left_(most_elements) {
  for (const onnx::TensorProto& tensor : graph.initializer()) sources_[tensor.name()] = {.tensor = &tensor, .axes = std::nullopt};
  for (const onnx::NodeProto& node : graph.node()) AddNode(node);
}

void OnnxConstants::AddNode(const onnx::NodeProto& node) {
  if (node.output_size() != 1) return;
  if (node.op_type() == "Constant") {
    const onnx::AttributeProto* value = FindAttribute(node, "value");
    if (value != nullptr && value->has_t()) sources_[node.output(0)] = {.tensor = &value->t(), .axes = std::nullopt};
    return;
  }
  const bool transpose = node.op_type() == "Transpose";
  if ((!transpose && node.op_type() != "Identity") || node.input_size() != 1) return;
  const auto found = sources_.find(node.input(0));
  if (found == sources_.end()) return;
  Source source = found->second;
  if (transpose) {
    if (source.axes) return;  // once is what exporters write
    source.axes = AxesOf(node, std::min(source.tensor->dims_size(), Shape::kMaxRank));
    if (!source.axes) return;
  }
  sources_[node.output(0)] = std::move(source);
}

int OnnxConstants::RankOf(std::string_view name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end() || found->second.tensor->dims_size() > Shape::kMaxRank) return -1;
  return found->second.tensor->dims_size();
}

bool OnnxConstants::IsFloat(std::string_view name) const {
  const auto found = sources_.find(name);
  return found != sources_.end() && found->second.tensor->data_type() == onnx::TensorProto::FLOAT;
}

bool OnnxConstants::IsWeights(std::string_view name) const {
  const auto found = sources_.find(name);
  if (found == sources_.end()) return false;
  constexpr std::array kTypes = {1, 10, 11, 16};  // FLOAT, FLOAT16, DOUBLE, BFLOAT16
  const onnx::TensorProto& tensor = *found->second.tensor;
  return std::ranges::find(kTypes, static_cast<int>(tensor.data_type())) != kTypes.end() &&
         std::ranges::any_of(tensor.dims(), [](int64_t extent) { return extent > 1; });
}

absl::StatusOr<OnnxConstant> OnnxConstants::Get(std::string_view name) {
  const auto found = sources_.find(name);
  if (found == sources_.end()) return Wrong(name, "is computed by the network, expected constant weights");
  const onnx::TensorProto& tensor = *found->second.tensor;
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    return Wrong(name, "has its data in another file; save the network as one file");
  if (tensor.data_type() != onnx::TensorProto::FLOAT) {
    return Wrong(name, fmt::format("is of ONNX type {}, expected 1 (float32)", tensor.data_type()));
  }
  TY_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(tensor, name));
  OnnxConstant constant{.name = Printable(std::string(name)), .shape = shape, .values = {}};
  const auto elements = static_cast<size_t>(shape.elements());
  const bool raw = tensor.has_raw_data();
  const size_t bytes = raw ? tensor.raw_data().size() : static_cast<size_t>(tensor.float_data_size()) * sizeof(float);
  if (bytes != elements * sizeof(float))
    return Wrong(name, fmt::format("of shape {} has {} bytes of data, expected {}", shape.ToString(), bytes, elements * sizeof(float)));
  left_ -= shape.elements();
  if (left_ < 0)
    return Wrong(name, "is one too many: the file's layers have far more numbers than the job's model, so it is another network");
  constant.values.resize(elements);
  if (bytes > 0)
    std::memcpy(constant.values.data(), raw ? static_cast<const void*>(tensor.raw_data().data()) : tensor.float_data().data(), bytes);
  const auto wrong = std::ranges::find_if(constant.values, [](float value) { return !std::isfinite(value); });
  if (wrong != constant.values.end()) {
    return Wrong(name, fmt::format("has the number {} at element {}, expected finite ones: its training has diverged", *wrong,
                                   wrong - constant.values.begin()));
  }
  if (found->second.axes) {
    constant.values = Permuted(constant.values, shape, *found->second.axes);
    constant.shape = PermutedShape(shape, *found->second.axes);
  }
  return constant;
}

}  // namespace trainyard::engine
