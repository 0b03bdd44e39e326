#include "trainer/predict/torch_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

// Keras' gate at each place of PyTorch's.
constexpr std::array kLstmGates = {0, 1, 2, 3};
constexpr std::array kGruGates = {1, 0, 2};
constexpr std::array kOneGate = {0};

std::span<const int> GatesOf(Cell cell) {
  if (cell == Cell::kLstm) return kLstmGates;
  if (cell == Cell::kGru) return kGruGates;
  return kOneGate;
}

// "conv1/kernel" → "conv1"; "both/backward/kernel" → "both/backward"
std::string_view OwnerOf(std::string_view parameter) { return parameter.substr(0, parameter.rfind('/')); }

class Exporter {
 public:
  explicit Exporter(const ParameterSet& parameters) : parameters_(parameters), of_key_(static_cast<size_t>(parameters.size())) {}

  void Add(const Graph& graph) {
    for (const Node& node : graph.nodes()) {
      if (const auto* op = std::get_if<RecurrentOp>(&node.op)) cells_.emplace(OwnerOf(KeyName(graph, node.inputs[1])), op->cell);
    }
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
      FollowFlatten(graph, id);
      AddNode(graph, graph.nodes()[static_cast<size_t>(id)]);
    }
  }

  absl::StatusOr<std::vector<TorchTensor>> Finish() && {
    if (!not_alike_.empty()) {
      return absl::UnimplementedError(
          fmt::format("layer '{}' adds a flattened image to other features; PyTorch has its elements in another order", not_alike_));
    }
    std::vector<TorchTensor> all;
    for (int key = 0; key < parameters_.size(); ++key) {
      auto& tensors = of_key_[static_cast<size_t>(key)];
      if (tensors.empty()) {
        return absl::UnimplementedError(fmt::format("parameter '{}' has no counterpart in PyTorch", parameters_.spec(key).name));
      }
      std::ranges::move(tensors, std::back_inserter(all));
    }
    return all;
  }

 private:
  using Image = std::array<int64_t, 3>;  // height, width, channels

  static int KeyOf(const Graph& graph, Value value) {
    const auto* parameter = std::get_if<ParameterOp>(&graph.node(value.node).op);
    TY_CHECK(parameter != nullptr);
    return parameter->key;
  }
  const std::string& KeyName(const Graph& graph, Value value) const { return parameters_.spec(KeyOf(graph, value)).name; }

  // Notes values that are flattened images, row by row with the channels innermost.
  void FollowFlatten(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    if (std::holds_alternative<ReshapeOp>(node.op)) {
      const Shape& from = graph.spec(node.inputs[0]).shape;
      if (from.rank() == 4 && node.outputs[0].shape.rank() == 2) flattened_[{id, 0}] = {from[1], from[2], from[3]};
      return;
    }
    if (std::holds_alternative<AddOp>(node.op)) CheckSamePlaces(graph, node);
    const bool keeps_places = std::holds_alternative<ActivationOp>(node.op) || std::holds_alternative<DropoutOp>(node.op) ||
                              std::holds_alternative<IdentityOp>(node.op) || std::holds_alternative<BatchNormOp>(node.op) ||
                              std::holds_alternative<AddOp>(node.op);
    if (!keeps_places) return;
    if (const auto found = flattened_.find(node.inputs[0]); found != flattened_.end()) flattened_[{id, 0}] = found->second;
  }

  void CheckSamePlaces(const Graph& graph, const Node& node) {
    if (graph.spec(node.inputs[0]).shape.rank() != 2) return;
    for (const Value& input : node.inputs) {
      if (PlacesOf(graph, input) != PlacesOf(graph, node.inputs[0])) not_alike_ = node.name;
    }
  }

  // PyTorch's place of each element of the last axis of `x` → ours.
  std::vector<int64_t> PlacesOf(const Graph& graph, Value x) const {
    std::vector<int64_t> places(static_cast<size_t>(graph.spec(x).shape[-1]));
    const auto found = flattened_.find(x);
    const Image image = found != flattened_.end() ? found->second : Image{1, static_cast<int64_t>(places.size()), 1};
    const int64_t pixels = image[0] * image[1];
    for (int64_t place = 0; place < static_cast<int64_t>(places.size()); ++place) {
      places[static_cast<size_t>(place)] = place % pixels * image[2] + place / pixels;
    }
    return places;
  }

  void AddNode(const Graph& graph, const Node& node) {
    if (std::holds_alternative<Conv2dOp>(node.op)) return AddConv2d(KeyOf(graph, node.inputs[1]));
    if (std::holds_alternative<BiasOp>(node.op)) return AddBias(KeyOf(graph, node.inputs[1]));
    if (std::holds_alternative<EmbeddingOp>(node.op)) return AddPlain(KeyOf(graph, node.inputs[1]), "weight", {});
    if (std::holds_alternative<DenseOp>(node.op)) return AddDense(graph, node);
    if (std::holds_alternative<RecurrentOp>(node.op)) return AddRecurrent(graph, node);
    if (!std::holds_alternative<BatchNormOp>(node.op)) return;
    constexpr std::array kNames = {"weight", "bias", "running_mean", "running_var"};
    const std::vector<int64_t> places = PlacesOf(graph, node.inputs[0]);
    for (size_t i = 0; i < kNames.size(); ++i) AddPlain(KeyOf(graph, node.inputs[i + 1]), kNames[i], places);
  }

  TorchTensor& Tensor(int key, std::string_view name, const Shape& shape) {
    std::string owner(OwnerOf(parameters_.spec(key).name));
    std::string suffix;
    if (owner.ends_with("/backward")) suffix = "_reverse";
    owner = owner.substr(0, owner.find('/'));  // names of layers have none
    of_key_[static_cast<size_t>(key)].push_back({.name = fmt::format("{}.{}{}", owner, name, suffix), .shape = shape, .values = {}});
    TorchTensor& tensor = of_key_[static_cast<size_t>(key)].back();
    tensor.values.resize(static_cast<size_t>(shape.elements()));
    return tensor;
  }

  // As it is, or with the elements of its one axis at other places.
  void AddPlain(int key, std::string_view name, const std::vector<int64_t>& places) {
    const std::span<const float> from = parameters_.values(key);
    TorchTensor& to = Tensor(key, name, parameters_.spec(key).shape);
    for (size_t i = 0; i < from.size(); ++i) to.values[i] = from[places.empty() ? i : static_cast<size_t>(places[i])];
  }

  // HWIO → OIHW
  void AddConv2d(int key) {
    const Shape& shape = parameters_.spec(key).shape;
    const std::span<const float> from = parameters_.values(key);
    const int64_t window = shape[0] * shape[1];
    TorchTensor& to = Tensor(key, "weight", Shape({shape[3], shape[2], shape[0], shape[1]}));
    float* next = to.values.data();
    for (int64_t out = 0; out < shape[3]; ++out) {
      for (int64_t in = 0; in < shape[2]; ++in) {
        for (int64_t place = 0; place < window; ++place) *next++ = from[static_cast<size_t>((place * shape[2] + in) * shape[3] + out)];
      }
    }
  }

  void AddDense(const Graph& graph, const Node& node) {
    const int key = KeyOf(graph, node.inputs[1]);
    const auto cell = cells_.find(OwnerOf(parameters_.spec(key).name));
    if (cell != cells_.end()) return AddGates(key, "weight_ih_l0", cell->second);
    const std::vector<int64_t> places = PlacesOf(graph, node.inputs[0]);
    const Shape& shape = parameters_.spec(key).shape;
    const std::span<const float> from = parameters_.values(key);
    TorchTensor& to = Tensor(key, "weight", Shape({shape[1], shape[0]}));
    float* next = to.values.data();
    for (int64_t out = 0; out < shape[1]; ++out) {
      for (const int64_t place : places) *next++ = from[static_cast<size_t>(place * shape[1] + out)];
    }
  }

  // [inputs, G units] → [G units, inputs], with PyTorch's order of gates.
  void AddGates(int key, std::string_view name, Cell cell) {
    const Shape& shape = parameters_.spec(key).shape;
    const std::span<const float> from = parameters_.values(key);
    TorchTensor& to = Tensor(key, name, Shape({shape[1], shape[0]}));
    const std::span<const int> gates = GatesOf(cell);
    const int64_t units = shape[1] / static_cast<int64_t>(gates.size());
    float* next = to.values.data();
    for (const int gate : gates) {
      for (int64_t unit = 0; unit < units; ++unit) {
        for (int64_t in = 0; in < shape[0]; ++in) *next++ = from[static_cast<size_t>(in * shape[1] + gate * units + unit)];
      }
    }
  }

  // `row` of a GRU's two.
  void AddGateBias(int key, std::string_view name, Cell cell, int64_t row) {
    const Shape& shape = parameters_.spec(key).shape;
    const std::span<const float> from = parameters_.values(key).subspan(static_cast<size_t>(row * shape[-1]));
    TorchTensor& to = Tensor(key, name, Shape({shape[-1]}));
    const std::span<const int> gates = GatesOf(cell);
    const auto units = to.values.size() / gates.size();
    for (size_t gate = 0; gate < gates.size(); ++gate) {
      std::ranges::copy(from.subspan(static_cast<size_t>(gates[gate]) * units, units),
                        to.values.begin() + static_cast<int64_t>(gate * units));
    }
  }

  void AddRecurrent(const Graph& graph, const Node& node) {
    const auto& op = std::get<RecurrentOp>(node.op);
    AddGates(KeyOf(graph, node.inputs[1]), "weight_hh_l0", op.cell);
    if (!op.bias) return;  // not a GRU: its bias was added to its inputs
    const int key = KeyOf(graph, node.inputs[2]);
    AddGateBias(key, "bias_ih_l0", op.cell, 0);
    AddGateBias(key, "bias_hh_l0", op.cell, 1);
  }

  void AddBias(int key) {
    const auto cell = cells_.find(OwnerOf(parameters_.spec(key).name));
    if (cell == cells_.end()) return AddPlain(key, "bias", {});
    AddGateBias(key, "bias_ih_l0", cell->second, 0);
    Tensor(key, "bias_hh_l0", parameters_.spec(key).shape);  // zeros
  }

  const ParameterSet& parameters_;
  std::vector<std::vector<TorchTensor>> of_key_;
  std::map<std::string, Cell, std::less<>> cells_;  // by the owner of their parameters
  std::map<Value, Image> flattened_;
  std::string not_alike_;  // a node that adds values whose elements PyTorch orders differently
};

}  // namespace

absl::StatusOr<std::vector<TorchTensor>> TorchTensorsOf(const ModelSpec& spec, const ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(spec, /*batch=*/1));
  TY_CHECK(graph.parameters().size() == static_cast<size_t>(parameters.size()));
  Exporter exporter(parameters);
  exporter.Add(graph);
  return std::move(exporter).Finish();
}

}  // namespace trainyard::engine
