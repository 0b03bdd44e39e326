#include "trainer/onnx/element_order.h"

#include <algorithm>
#include <array>
#include <set>

#include "trainer/onnx/constants.h"

namespace trainyard::engine {
namespace {

using Names = std::set<std::string_view>;

// Operators whose output has the places of their first input that is not constant.
const Names& ElementByElement() {
  static const auto& names = *new Names{"Add", "Cast", "Clip",    "Dropout", "Elu", "Identity", "LeakyRelu",
                                        "Mul", "Relu", "Sigmoid", "Softmax", "Sub", "Sum",      "Tanh"};
  return names;
}

const Names& OfImages() {
  static const auto& names = *new Names{"AveragePool", "BatchNormalization", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool"};
  return names;
}

}  // namespace

ElementOrders::ElementOrders(const onnx::GraphProto& graph) : graph_(graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (node.op_type() == "Constant") continue;
    for (const std::string& output : node.output()) writers_[output] = &node;
  }
}

ElementOrder ElementOrders::OrderOfInput(std::string_view name, int64_t pixels, int64_t channels) const {
  for (const onnx::ValueInfoProto& input : graph_.input()) {
    if (input.name() != name) continue;
    const auto& extents = input.type().tensor_type().shape().dim();
    if (extents.size() != 4) return ElementOrder::kUnknown;
    const auto is = [&](int row, int column, int channel) {
      const int64_t rows = extents[row].dim_value();
      const int64_t columns = extents[column].dim_value();
      return extents[channel].dim_value() == channels && rows <= pixels && columns <= pixels && rows > 0 && columns > 0 &&
             rows * columns == pixels;
    };
    const bool last = is(1, 2, 3);
    if (last == is(2, 3, 1)) return ElementOrder::kUnknown;
    return last ? ElementOrder::kPixelsFirst : ElementOrder::kChannelsFirst;
  }
  return ElementOrder::kUnknown;
}

ElementOrder ElementOrders::OrderOf(std::string_view name, int64_t pixels, int64_t channels) const {
  bool image = false;  // the value before the flatten
  for (int left = graph_.node_size(); left >= 0; --left) {
    const auto found = writers_.find(name);
    if (found == writers_.end()) return image ? OrderOfInput(name, pixels, channels) : ElementOrder::kUnknown;
    const onnx::NodeProto& node = *found->second;
    if (image && OfImages().contains(node.op_type())) return ElementOrder::kChannelsFirst;
    if (image && node.op_type() == "Transpose") {
      const onnx::AttributeProto* perm = FindAttribute(node, "perm");
      constexpr std::array kChannelsLast = {0, 2, 3, 1};
      const bool last = perm != nullptr && std::ranges::equal(perm->ints(), kChannelsLast);
      return last ? ElementOrder::kPixelsFirst : ElementOrder::kUnknown;
    }
    const bool flatten = node.op_type() == "Flatten" || node.op_type() == "Reshape";
    const bool same = ElementByElement().contains(node.op_type()) || (!image && node.op_type() == "BatchNormalization");
    if (!flatten && !same) return ElementOrder::kUnknown;
    image = image || flatten;
    const auto next = std::ranges::find_if(node.input(), [&](const std::string& input) { return writers_.contains(input); });
    if (next != node.input().end()) {
      name = *next;
    } else if (node.input_size() > 0) {
      name = node.input(0);
    } else {
      return ElementOrder::kUnknown;
    }
  }
  return ElementOrder::kUnknown;  // a cycle
}

}  // namespace trainyard::engine
