#include "trainer/onnx/onnx_graph.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

void Describe(onnx::ValueInfoProto& value, const std::string& name, onnx::TensorProto::DataType type, std::span<const OnnxExtent> extents) {
  value.set_name(name);
  onnx::TypeProto::Tensor& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  onnx::TensorShapeProto& shape = *tensor.mutable_shape();
  for (const OnnxExtent& extent : extents) {
    onnx::TensorShapeProto::Dimension& dimension = *shape.add_dim();
    if (extent.free.empty()) {
      dimension.set_dim_value(extent.extent);
    } else {
      dimension.set_dim_param(extent.free);
    }
  }
}

template <typename T>
void FillTensor(onnx::TensorProto& tensor, const std::string& name, onnx::TensorProto::DataType type, const Shape& shape,
                std::span<const T> values) {
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t extent : shape.extents()) tensor.add_dims(extent);
  tensor.set_raw_data(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

onnx::AttributeProto& AddAttribute(onnx::NodeProto& node, std::string_view name, onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(type);
  return attribute;
}

}  // namespace

std::string OnnxGraph::NewName(std::string_view wanted) {
  std::string name(wanted);
  for (int number = 2; !names_.insert(name).second; ++number) name = fmt::format("{}_{}", wanted, number);
  return name;
}

void OnnxGraph::AddInput(const std::string& name, onnx::TensorProto::DataType type, std::span<const OnnxExtent> extents) {
  Describe(*graph_.add_input(), name, type, extents);
}

void OnnxGraph::AddOutput(const std::string& name, onnx::TensorProto::DataType type, std::span<const OnnxExtent> extents) {
  Describe(*graph_.add_output(), name, type, extents);
}

std::string OnnxGraph::AddNumbers(std::string_view wanted, const Shape& shape, std::span<const float> values) {
  TY_CHECK(static_cast<int64_t>(values.size()) == shape.elements());
  std::string name = NewName(wanted);
  FillTensor(*graph_.add_initializer(), name, onnx::TensorProto::FLOAT, shape, values);
  return name;
}

std::string OnnxGraph::AddIntegers(std::string_view wanted, std::span<const int64_t> values) {
  std::string name = NewName(wanted);
  FillTensor(*graph_.add_initializer(), name, onnx::TensorProto::INT64, Shape({static_cast<int64_t>(values.size())}), values);
  return name;
}

onnx::NodeProto& OnnxGraph::AddNode(std::string_view type, std::span<const std::string> inputs, std::span<const std::string> outputs) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(type));
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) {
    node.add_output(output);
    if (output.empty()) continue;
    TY_CHECK(names_.contains(output) && computed_.insert(output).second);
    if (!node.has_name()) node.set_name(output);
  }
  return node;
}

std::string OnnxGraph::Add(std::string_view type, std::initializer_list<std::string> inputs, std::string_view wanted) {
  std::string name = NewName(wanted);
  AddNode(type, inputs, std::span(&name, 1));
  return name;
}

onnx::NodeProto& OnnxGraph::last_node() { return *graph_.mutable_node(graph_.node_size() - 1); }

void OnnxGraph::Rename(const std::string& from, const std::string& to) {
  TY_CHECK(computed_.erase(from) == 1 && computed_.insert(to).second);
  for (onnx::NodeProto& node : *graph_.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == from) input = to;
    }
    for (std::string& output : *node.mutable_output()) {
      if (output == from) output = to;
    }
  }
}

onnx::GraphProto OnnxGraph::Finish(std::string_view name) && {
  graph_.set_name(std::string(name));
  return std::move(graph_);
}

void SetInteger(onnx::NodeProto& node, std::string_view name, int64_t value) {
  AddAttribute(node, name, onnx::AttributeProto::INT).set_i(value);
}
void SetIntegers(onnx::NodeProto& node, std::string_view name, std::span<const int64_t> values) {
  AddAttribute(node, name, onnx::AttributeProto::INTS).mutable_ints()->Add(values.begin(), values.end());
}
void SetNumber(onnx::NodeProto& node, std::string_view name, float value) {
  AddAttribute(node, name, onnx::AttributeProto::FLOAT).set_f(value);
}
void SetNumbers(onnx::NodeProto& node, std::string_view name, std::span<const float> values) {
  AddAttribute(node, name, onnx::AttributeProto::FLOATS).mutable_floats()->Add(values.begin(), values.end());
}
void SetText(onnx::NodeProto& node, std::string_view name, std::string_view value) {
  AddAttribute(node, name, onnx::AttributeProto::STRING).set_s(std::string(value));
}
void SetTexts(onnx::NodeProto& node, std::string_view name, std::span<const std::string> values) {
  AddAttribute(node, name, onnx::AttributeProto::STRINGS).mutable_strings()->Add(values.begin(), values.end());
}

}  // namespace trainyard::engine
