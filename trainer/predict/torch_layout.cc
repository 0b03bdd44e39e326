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
#include "trainer/model/flattened_images.h"
#include "trainer/tensor/permute.h"

namespace trainyard::engine {
namespace {

// Keras' gate at each place of PyTorch's.
constexpr std::array kLstmGates = {0, 1, 2, 3};
constexpr std::array kGruGates = {1, 0, 2};
constexpr std::array kOneGate = {0};

// Orders of axes.
constexpr std::array kOutInHeightWidth = {3, 2, 0, 1};  // of HWIO
constexpr std::array kSwapped = {1, 0};
constexpr std::array kReversed = {2, 1, 0};

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
    flattened_ = FlattenedImagesOf(graph);
    for (const Node& node : graph.nodes()) {
      if (std::holds_alternative<AddOp>(node.op)) CheckSamePlaces(graph, node);
      AddNode(graph, node);
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
  static int KeyOf(const Graph& graph, Value value) {
    const auto* parameter = std::get_if<ParameterOp>(&graph.node(value.node).op);
    TY_CHECK(parameter != nullptr);
    return parameter->key;
  }
  const std::string& KeyName(const Graph& graph, Value value) const { return parameters_.spec(KeyOf(graph, value)).name; }

  void CheckSamePlaces(const Graph& graph, const Node& node) {
    if (graph.spec(node.inputs[0]).shape.rank() != 2) return;
    for (const Value& input : node.inputs) {
      if (PlacesOf(graph, input) != PlacesOf(graph, node.inputs[0])) not_alike_ = node.name;
    }
  }

  // Pixels and channels of the last axis of `x`. PyTorch has the channels first.
  std::array<int64_t, 2> PlacesOf(const Graph& graph, Value x) const {
    const auto found = flattened_.find(x);
    return found != flattened_.end() ? found->second : std::array{graph.spec(x).shape[-1], int64_t{1}};
  }

  void AddNode(const Graph& graph, const Node& node) {
    if (std::holds_alternative<Conv2dOp>(node.op)) return AddConv2d(KeyOf(graph, node.inputs[1]));
    if (std::holds_alternative<BiasOp>(node.op)) return AddBias(KeyOf(graph, node.inputs[1]));
    if (std::holds_alternative<EmbeddingOp>(node.op)) return AddPlain(KeyOf(graph, node.inputs[1]), "weight");
    if (std::holds_alternative<DenseOp>(node.op)) return AddDense(graph, node);
    if (std::holds_alternative<RecurrentOp>(node.op)) return AddRecurrent(graph, node);
    if (!std::holds_alternative<BatchNormOp>(node.op)) return;
    constexpr std::array kNames = {"weight", "bias", "running_mean", "running_var"};
    const auto [pixels, channels] = PlacesOf(graph, node.inputs[0]);
    for (size_t i = 0; i < kNames.size(); ++i) {
      const int key = KeyOf(graph, node.inputs[i + 1]);
      Add(key, kNames[i], parameters_.spec(key).shape, Permuted(parameters_.values(key), {pixels, channels}, kSwapped));
    }
  }

  void Add(int key, std::string_view name, const Shape& shape, std::vector<float> values) {
    std::string owner(OwnerOf(parameters_.spec(key).name));
    std::string suffix;
    if (owner.ends_with("/backward")) suffix = "_reverse";
    owner = owner.substr(0, owner.find('/'));  // names of layers have none
    of_key_[static_cast<size_t>(key)].push_back(
        {.name = fmt::format("{}.{}{}", owner, name, suffix), .shape = shape, .values = std::move(values)});
  }

  void AddPlain(int key, std::string_view name) {
    const std::span<const float> values = parameters_.values(key);
    Add(key, name, parameters_.spec(key).shape, {values.begin(), values.end()});
  }

  void AddConv2d(int key) {
    const Shape& shape = parameters_.spec(key).shape;
    Add(key, "weight", PermutedShape(shape, kOutInHeightWidth), Permuted(parameters_.values(key), shape, kOutInHeightWidth));
  }

  void AddDense(const Graph& graph, const Node& node) {
    const int key = KeyOf(graph, node.inputs[1]);
    const auto cell = cells_.find(OwnerOf(parameters_.spec(key).name));
    if (cell != cells_.end()) return AddGates(key, "weight_ih_l0", cell->second);
    const auto [pixels, channels] = PlacesOf(graph, node.inputs[0]);
    const Shape& shape = parameters_.spec(key).shape;
    Add(key, "weight", {shape[1], shape[0]}, Permuted(parameters_.values(key), {pixels, channels, shape[1]}, kReversed));
  }

  // [inputs, G units] → [G units, inputs], with PyTorch's order of gates.
  void AddGates(int key, std::string_view name, Cell cell) {
    const Shape& shape = parameters_.spec(key).shape;
    Add(key, name, {shape[1], shape[0]}, ReorderedBlocks(Permuted(parameters_.values(key), shape, kSwapped), GatesOf(cell)));
  }

  // `row` of a GRU's two.
  void AddGateBias(int key, std::string_view name, Cell cell, int64_t row) {
    const auto width = parameters_.spec(key).shape[-1];
    const std::span<const float> from = parameters_.values(key).subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
    Add(key, name, Shape({width}), ReorderedBlocks(from, GatesOf(cell)));
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
    if (cell == cells_.end()) return AddPlain(key, "bias");
    AddGateBias(key, "bias_ih_l0", cell->second, 0);
    const Shape& shape = parameters_.spec(key).shape;
    Add(key, "bias_hh_l0", shape, std::vector<float>(static_cast<size_t>(shape.elements())));
  }

  const ParameterSet& parameters_;
  std::vector<std::vector<TorchTensor>> of_key_;
  std::map<std::string, Cell, std::less<>> cells_;  // by the owner of their parameters
  FlattenedImages flattened_;
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
