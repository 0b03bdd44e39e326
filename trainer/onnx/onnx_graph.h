// The ONNX graph that an export writes, as it grows: tensors by their names, nodes in the order in
// which they run.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/onnx/proto/onnx.pb.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// One extent of a graph's input or output: a number, or the name of a free one.
struct OnnxExtent {
  int64_t extent = 0;
  std::string free;
};

class OnnxGraph {
 public:
  // `wanted`, or `wanted` with _2, _3 … appended where a tensor has that name.
  std::string NewName(std::string_view wanted);

  // Of names that NewName gave.
  void AddInput(const std::string& name, onnx::TensorProto::DataType type, std::span<const OnnxExtent> extents);
  void AddOutput(const std::string& name, onnx::TensorProto::DataType type, std::span<const OnnxExtent> extents);

  // Constant tensors; they give their new names.
  std::string AddNumbers(std::string_view wanted, const Shape& shape, std::span<const float> values);
  std::string AddIntegers(std::string_view wanted, std::span<const int64_t> values);
  // A node that writes tensors of the names `outputs`, which NewName gave ("": none). It is valid
  // until the next one is added.
  onnx::NodeProto& AddNode(std::string_view type, std::span<const std::string> inputs, std::span<const std::string> outputs);
  // With one output, whose new name it gives.
  std::string Add(std::string_view type, std::initializer_list<std::string> inputs, std::string_view wanted);
  onnx::NodeProto& last_node();

  // Whether a node writes the tensor.
  bool IsComputed(std::string_view name) const { return computed_.contains(name); }
  // Gives the tensor that a node writes another name; no output has been added for it.
  void Rename(const std::string& from, const std::string& to);

  onnx::GraphProto Finish(std::string_view name) &&;

 private:
  onnx::GraphProto graph_;
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> computed_;
};

// Attributes of a node.
void SetInteger(onnx::NodeProto& node, std::string_view name, int64_t value);
void SetIntegers(onnx::NodeProto& node, std::string_view name, std::span<const int64_t> values);
void SetNumber(onnx::NodeProto& node, std::string_view name, float value);
void SetNumbers(onnx::NodeProto& node, std::string_view name, std::span<const float> values);
void SetText(onnx::NodeProto& node, std::string_view name, std::string_view value);
void SetTexts(onnx::NodeProto& node, std::string_view name, std::span<const std::string> values);

}  // namespace trainyard::engine
