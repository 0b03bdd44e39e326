#include "trainer/onnx/file_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "trainer/base/printable.h"
#include "trainer/base/status_macros.h"
#include "trainer/onnx/file_recurrent.h"
#include "trainer/onnx/unused_weights.h"
#include "trainer/tensor/permute.h"

namespace trainyard::engine {
namespace {

constexpr std::array kHeightWidthInOut = {2, 3, 1, 0};  // of OIHW
constexpr std::array kSwapped = {1, 0};
constexpr float kOnnxEpsilon = 1e-5F;

absl::Status CheckRank(const OnnxConstant& constant, int rank, std::string_view axes) {
  if (constant.shape.rank() == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("tensor '{:.200}' is {}, expected {}", constant.name, constant.shape.ToString(), axes));
}

// Of a kernel [out, in, height, width].
absl::Status CheckDilations(const onnx::NodeProto& node, const Shape& kernel) {
  const onnx::AttributeProto* const dilations = FindAttribute(node, "dilations");
  if (dilations == nullptr) return absl::OkStatus();
  for (int i = 0; i < dilations->ints_size(); ++i) {
    const bool wide = i + 2 >= kernel.rank() || kernel[i + 2] > 1;  // a single row has nothing to be dilated
    if (dilations->ints(i) == 1 || !wide) continue;
    return absl::InvalidArgumentError(
        fmt::format("has dilations [{}], expected 1: conv2d has no dilations", fmt::join(dilations->ints(), ", ")));
  }
  return absl::OkStatus();
}

void Permute(OnnxConstant& constant, std::span<const int> axes) {
  constant.values = Permuted(constant.values, constant.shape, axes);
  constant.shape = PermutedShape(constant.shape, axes);
}

std::string Input(const onnx::NodeProto& node, int i) { return i < node.input_size() ? node.input(i) : ""; }

class Reader {
 public:
  Reader(const onnx::GraphProto& graph, int64_t most_elements) : graph_(graph), constants_(graph, most_elements) {}

  absl::StatusOr<std::vector<FileLayer>> Read() && {
    UnusedWeights unused(constants_);
    for (const onnx::NodeProto& node : graph_.node()) {
      const int before = taken_;
      TY_RETURN_IF_ERROR(WithContext(Add(node), NodeText(node)));
      TY_RETURN_IF_ERROR(WithContext(unused.Check(node, taken_ > before), NodeText(node)));
    }
    return std::move(layers_);
  }

 private:
  static std::string NodeText(const onnx::NodeProto& node) {
    const std::string& name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
    return fmt::format("{:.40} '{:.200}'", Printable(node.op_type()), Printable(name));
  }

  absl::Status Add(const onnx::NodeProto& node) {
    const std::string& type = node.op_type();
    if (type == "Conv") return AddConv(node);
    if (type == "Gemm") return AddGemm(node);
    if (type == "MatMul") return AddMatMul(node);
    if (type == "Add") return AddBias(node);
    if (type == "BatchNormalization") return AddBatchNormalization(node);
    if (type == "Gather") return AddGather(node);
    if (type != "LSTM" && type != "GRU" && type != "RNN") return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(std::vector<FileLayer> directions, RecurrentLayersOf(node, constants_));
    for (FileLayer& layer : directions) Push(node, std::move(layer));
    return absl::OkStatus();
  }

  void Push(const onnx::NodeProto& node, FileLayer layer) {
    layer.node = NodeText(node);
    layer.input = Input(node, 0);
    if (layer.kind == WeightsKind::kEmbedding) layer.input = Input(node, 1);
    if (node.output_size() > 0) written_[node.output(0)] = layers_.size();
    layers_.push_back(std::move(layer));
    ++taken_;
  }

  // Appends the bias [channels], where there is one.
  absl::Status AppendBias(const std::string& name, FileLayer& layer) {
    if (name.empty()) return absl::OkStatus();
    TY_ASSIGN_OR_RETURN(OnnxConstant bias, constants_.Get(name));
    TY_RETURN_IF_ERROR(CheckRank(bias, 1, "[channels]"));
    layer.weights.push_back(std::move(bias));
    return absl::OkStatus();
  }

  absl::Status AddConv(const onnx::NodeProto& node) {
    if (const int64_t group = IntegerOf(node, "group", 1); group != 1) {
      return absl::InvalidArgumentError(fmt::format("has {} groups, expected 1: conv2d has no groups", group));
    }
    FileLayer layer;
    layer.kind = WeightsKind::kConv2d;
    TY_ASSIGN_OR_RETURN(OnnxConstant kernel, constants_.Get(Input(node, 1)));
    TY_RETURN_IF_ERROR(CheckRank(kernel, 4, "[out, in, height, width]"));
    TY_RETURN_IF_ERROR(CheckDilations(node, kernel.shape));
    Permute(kernel, kHeightWidthInOut);
    layer.weights.push_back(std::move(kernel));
    TY_RETURN_IF_ERROR(AppendBias(Input(node, 2), layer));
    Push(node, std::move(layer));
    return absl::OkStatus();
  }

  absl::Status AddGemm(const onnx::NodeProto& node) {
    if (IntegerOf(node, "transA", 0) != 0 || NumberOf(node, "alpha", 1) != 1 || NumberOf(node, "beta", 1) != 1) {
      return absl::InvalidArgumentError("has alpha, beta or transA, expected x W + b");
    }
    FileLayer layer;
    layer.kind = WeightsKind::kDense;
    TY_ASSIGN_OR_RETURN(OnnxConstant kernel, constants_.Get(Input(node, 1)));
    TY_RETURN_IF_ERROR(CheckRank(kernel, 2, "[in, out] or [out, in]"));
    if (IntegerOf(node, "transB", 0) != 0) Permute(kernel, kSwapped);
    layer.weights.push_back(std::move(kernel));
    TY_RETURN_IF_ERROR(AppendBias(Input(node, 2), layer));
    Push(node, std::move(layer));
    return absl::OkStatus();
  }

  absl::Status AddMatMul(const onnx::NodeProto& node) {
    if (constants_.RankOf(Input(node, 1)) != 2) return absl::OkStatus();  // two values of the network
    FileLayer layer;
    layer.kind = WeightsKind::kDense;
    TY_ASSIGN_OR_RETURN(OnnxConstant kernel, constants_.Get(Input(node, 1)));
    layer.weights.push_back(std::move(kernel));
    Push(node, std::move(layer));
    return absl::OkStatus();
  }

  // A constant for each channel that is added to a product.
  absl::Status AddBias(const onnx::NodeProto& node) {
    for (const int x : {0, 1}) {
      const auto product = written_.find(Input(node, x));
      const std::string name = Input(node, 1 - x);
      if (product == written_.end() || !constants_.IsFloat(name)) continue;
      FileLayer& layer = layers_[product->second];
      const bool conv = layer.kind == WeightsKind::kConv2d;
      if ((!conv && layer.kind != WeightsKind::kDense) || layer.weights.size() != 1) continue;
      TY_ASSIGN_OR_RETURN(OnnxConstant bias, constants_.Get(name));
      const int64_t channels = layer.weights[0].shape[-1];
      const int64_t at = conv ? bias.shape.rank() - 3 : bias.shape.rank() - 1;  // the channels' axis
      if (bias.shape.elements() != channels || at < 0 || bias.shape[static_cast<int>(at)] != channels) continue;
      bias.shape = Shape({channels});
      layer.weights.push_back(std::move(bias));
      ++taken_;
    }
    return absl::OkStatus();
  }

  absl::Status AddBatchNormalization(const onnx::NodeProto& node) {
    FileLayer layer;
    layer.kind = WeightsKind::kBatchNormalization;
    layer.epsilon = NumberOf(node, "epsilon", kOnnxEpsilon);
    for (int i = 1; i <= 4; ++i) {
      TY_ASSIGN_OR_RETURN(OnnxConstant constant, constants_.Get(Input(node, i)));
      TY_RETURN_IF_ERROR(CheckRank(constant, 1, "[channels]"));
      layer.weights.push_back(std::move(constant));
    }
    Push(node, std::move(layer));
    return absl::OkStatus();
  }

  // Rows of a constant table; other Gathers pick extents of shapes.
  absl::Status AddGather(const onnx::NodeProto& node) {
    const std::string table = Input(node, 0);
    if (constants_.RankOf(table) != 2 || !constants_.IsFloat(table) || IntegerOf(node, "axis", 0) != 0) return absl::OkStatus();
    FileLayer layer;
    layer.kind = WeightsKind::kEmbedding;
    TY_ASSIGN_OR_RETURN(OnnxConstant constant, constants_.Get(table));
    layer.weights.push_back(std::move(constant));
    Push(node, std::move(layer));
    return absl::OkStatus();
  }

  const onnx::GraphProto& graph_;
  OnnxConstants constants_;
  std::vector<FileLayer> layers_;
  int taken_ = 0;                                       // nodes that gave a layer, or its bias
  std::map<std::string, size_t, std::less<>> written_;  // the layer that writes a tensor
};

}  // namespace

absl::StatusOr<std::vector<FileLayer>> LayersOfOnnx(const onnx::GraphProto& graph, int64_t most_elements) {
  return Reader(graph, most_elements).Read();
}

}  // namespace trainyard::engine
