#include "trainer/onnx/file_recurrent.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

#include "trainer/base/printable.h"
#include "trainer/base/status_macros.h"
#include "trainer/onnx/cell_layout.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

constexpr int kPeepholes = 7;  // the place among an LSTM's inputs

Cell CellOf(const onnx::NodeProto& node) {
  if (node.op_type() == "LSTM") return Cell::kLstm;
  return node.op_type() == "GRU" ? Cell::kGru : Cell::kSimpleRnn;
}

absl::Status WrongShape(const OnnxConstant& constant, std::string_view axes) {
  return absl::InvalidArgumentError(fmt::format("tensor '{:.200}' is {}, expected {}", constant.name, constant.shape.ToString(), axes));
}

// W, R and B of all directions; B may be missing.
struct Tensors {
  OnnxConstant w, r;
  std::optional<OnnxConstant> b;
};

absl::StatusOr<Tensors> TensorsOf(const onnx::NodeProto& node, OnnxConstants& constants, Cell cell, int64_t directions) {
  if (node.input_size() < 3) return absl::InvalidArgumentError(fmt::format("has {} inputs, expected X, W and R", node.input_size()));
  Tensors tensors;
  TY_ASSIGN_OR_RETURN(tensors.w, constants.Get(node.input(1)));
  TY_ASSIGN_OR_RETURN(tensors.r, constants.Get(node.input(2)));
  const Shape& w = tensors.w.shape;
  const Shape& r = tensors.r.shape;
  if (r.rank() != 3 || r[0] != directions || r[1] != GateCount(cell) * r[2])
    return WrongShape(tensors.r, "[directions, gates x units, units]");
  if (w.rank() != 3 || w[0] != directions || w[1] != r[1]) return WrongShape(tensors.w, "[directions, gates x units, inputs]");
  if (node.input_size() < 4 || node.input(3).empty()) return tensors;
  TY_ASSIGN_OR_RETURN(tensors.b, constants.Get(node.input(3)));
  if (tensors.b->shape != Shape({directions, 2 * r[1]})) return WrongShape(*tensors.b, "[directions, 2 x gates x units]");
  return tensors;
}

std::span<const float> Direction(const OnnxConstant& constant, int64_t direction) {
  const size_t each = constant.values.size() / static_cast<size_t>(constant.shape[0]);
  return std::span(constant.values).subspan(static_cast<size_t>(direction) * each, each);
}

OnnxConstant Kernel(const OnnxConstant& constant, Cell cell, int64_t direction) {
  const Shape ours({constant.shape[2], constant.shape[1]});
  return {.name = constant.name, .shape = ours, .values = GatesOfOnnx(cell, ours, Direction(constant, direction))};
}

OnnxConstant Bias(const OnnxConstant& constant, Cell cell, int64_t direction) {
  const int64_t width = constant.shape[1] / 2;
  const Shape ours = cell == Cell::kGru ? Shape({2, width}) : Shape({width});
  return {.name = constant.name, .shape = ours, .values = BiasOfOnnx(cell, ours, Direction(constant, direction))};
}

}  // namespace

absl::StatusOr<std::vector<FileLayer>> RecurrentLayersOf(const onnx::NodeProto& node, OnnxConstants& constants) {
  const Cell cell = CellOf(node);
  const std::string direction = TextOf(node, "direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return absl::InvalidArgumentError(
        fmt::format("has direction '{:.40}', expected forward, reverse or bidirectional", Printable(direction)));
  }
  if (cell == Cell::kLstm && node.input_size() > kPeepholes && !node.input(kPeepholes).empty()) {
    return absl::InvalidArgumentError("has peepholes, which no layer here has");
  }
  if (cell == Cell::kLstm && IntegerOf(node, "input_forget", 0) != 0) {
    return absl::InvalidArgumentError("has input_forget 1, expected 0: lstm has a forget gate of its own");
  }
  if (FindAttribute(node, "clip") != nullptr) {
    return absl::InvalidArgumentError(fmt::format("has clip {}, expected none: no layer here clips its gates", NumberOf(node, "clip", 0)));
  }
  if (IntegerOf(node, "layout", 0) != 0) {
    return absl::InvalidArgumentError("has layout 1, expected 0: exporters write sequences as [steps, examples, features]");
  }
  if (cell == Cell::kGru && IntegerOf(node, "linear_before_reset", 0) == 0) {
    return absl::InvalidArgumentError(
        "has linear_before_reset 0, expected 1: gru resets behind the product, as cuDNN, Keras and PyTorch do");
  }
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  TY_ASSIGN_OR_RETURN(const Tensors tensors, TensorsOf(node, constants, cell, directions));
  std::vector<FileLayer> layers;
  for (int64_t i = 0; i < directions; ++i) {
    FileLayer layer;
    layer.kind = WeightsKindOf(cell);
    layer.reverse = i == 1 || direction == "reverse";
    layer.weights = {Kernel(tensors.w, cell, i), Kernel(tensors.r, cell, i)};
    if (tensors.b) layer.weights.push_back(Bias(*tensors.b, cell, i));
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace trainyard::engine
