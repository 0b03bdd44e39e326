// The constant tensors of an ONNX file, by name: initializers, Constant nodes, and either of them
// behind Identity nodes or a Transpose.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/onnx/proto/onnx.pb.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct OnnxConstant {
  std::string name;  // the file's own, made printable: it is in errors
  Shape shape;
  std::vector<float> values;  // row-major
};

class OnnxConstants {
 public:
  // `graph` must outlive it. Nothing of a tensor is looked at before it is asked for. All that Get
  // gives has at most `most_elements` numbers, however often a file names one tensor.
  OnnxConstants(const onnx::GraphProto& graph, int64_t most_elements);

  bool Has(std::string_view name) const { return sources_.contains(name); }
  // Its rank, -1 where it is larger than any tensor of ours, or absent.
  int RankOf(std::string_view name) const;
  bool IsFloat(std::string_view name) const;
  // More than one number that need not be whole.
  bool IsWeights(std::string_view name) const;
  // InvalidArgument names the tensor: another type than float32, data in another file, data that do
  // not fill its shape, a number that is not finite, or more numbers than are left.
  absl::StatusOr<OnnxConstant> Get(std::string_view name);

 private:
  struct Source {
    const onnx::TensorProto* tensor = nullptr;
    std::optional<std::vector<int>> axes;  // of a Transpose
  };
  void AddNode(const onnx::NodeProto& node);

  std::map<std::string, Source, std::less<>> sources_;
  int64_t left_;
};

// The attribute of `node`, or null.
const onnx::AttributeProto* FindAttribute(const onnx::NodeProto& node, std::string_view name);
int64_t IntegerOf(const onnx::NodeProto& node, std::string_view name, int64_t fallback);
float NumberOf(const onnx::NodeProto& node, std::string_view name, float fallback);
std::string TextOf(const onnx::NodeProto& node, std::string_view name, std::string_view fallback);

}  // namespace trainyard::engine
