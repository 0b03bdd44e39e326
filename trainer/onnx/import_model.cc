#include "trainer/onnx/import_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "trainer/base/printable.h"
#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"
#include "trainer/onnx/element_order.h"
#include "trainer/onnx/file_layers.h"
#include "trainer/onnx/model_layers.h"
#include "trainer/tensor/permute.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMostMistakes = 20;
constexpr int64_t kStructureBytes = int64_t{16} << 20;  // nodes, names, notes of exporters
constexpr int64_t kMoreElements = int64_t{1} << 24;     // than twice the model's: other networks' mistakes are told too
constexpr float kSameEpsilon = 1e-4F;                   // relative: a file may have rounded it

class Match {
 public:
  Match(const onnx::GraphProto& graph, const ParameterSet& parameters) : orders_(graph), parameters_(parameters) {}

  void Layers(std::vector<FileLayer> file, const std::vector<ModelLayer>& model) {
    const size_t both = std::min(file.size(), model.size());
    for (size_t i = 0; i < both; ++i) {
      if (file[i].kind != model[i].kind) {
        return Mistake(fmt::format("{} is of kind {}, but the job's layer '{}' at this place is of kind {}", file[i].node,
                                   WeightsKindName(file[i].kind), model[i].name, WeightsKindName(model[i].kind)));
      }
      Layer(file[i], model[i]);
    }
    if (file.size() > both) Mistake(fmt::format("the job has no layer for {}", file[both].node));
    if (model.size() > both) Mistake(fmt::format("the file has nothing for the job's layer '{}'", model[both].name));
  }

  absl::Status status() const {
    if (mistakes_.empty()) return absl::OkStatus();
    std::string text;
    for (size_t i = 0; i < std::min(mistakes_.size(), kMostMistakes); ++i) text += (i == 0 ? "" : "; ") + mistakes_[i];
    if (mistakes_.size() > kMostMistakes) text += fmt::format("; and {} more", mistakes_.size() - kMostMistakes);
    return absl::InvalidArgumentError(text);
  }

  void Store(ParameterSet& parameters) const {
    for (const auto& [key, values] : values_) std::ranges::copy(values, parameters.values(key).begin());
  }

 private:
  void Mistake(std::string text) { mistakes_.push_back(std::move(text)); }

  void Layer(FileLayer& file, const ModelLayer& model) {
    if (file.reverse != model.reverse) {
      Mistake(fmt::format("{} goes {}, but the job's layer '{}' goes {}", file.node, file.reverse ? "backwards" : "forward", model.name,
                          model.reverse ? "backwards" : "forward"));
    }
    if (std::abs(file.epsilon - model.epsilon) > kSameEpsilon * model.epsilon) {
      Mistake(fmt::format("{} has epsilon {}, but the job's layer '{}' has {}; set its epsilon in the job file", file.node, file.epsilon,
                          model.name, model.epsilon));
    }
    if (file.weights.size() != model.keys.size()) {
      Mistake(fmt::format("{} has {} bias, but the job's layer '{}' has {}; set its useBias in the job file", file.node,
                          file.weights.size() > model.keys.size() ? "a" : "no", model.name,
                          file.weights.size() > model.keys.size() ? "none" : "one"));
    }
    const size_t both = std::min(file.weights.size(), model.keys.size());
    bool fits = true;
    for (size_t i = 0; i < both; ++i) fits = Fits(file.weights[i], model.keys[i]) && fits;
    if (!fits || !Unflatten(file, model)) return;
    for (size_t i = 0; i < both; ++i) values_.emplace_back(model.keys[i], std::move(file.weights[i].values));
  }

  bool Fits(const OnnxConstant& tensor, int key) {
    const ParameterSpec& spec = parameters_.spec(key);
    if (tensor.shape == spec.shape) return true;
    Mistake(fmt::format("tensor '{:.200}' is {} in the order of parameter '{}', expected {}", tensor.name, tensor.shape.ToString(),
                        spec.name, spec.shape.ToString()));
    return false;
  }

  // Brings the weights of a layer behind a flattened image into the order of our images.
  bool Unflatten(FileLayer& file, const ModelLayer& model) {
    const auto [pixels, channels] = model.image;
    if (channels == 1) return true;
    const ElementOrder order = orders_.OrderOf(file.input, pixels, channels);
    if (order == ElementOrder::kPixelsFirst) return true;
    if (order == ElementOrder::kUnknown) {
      Mistake(fmt::format("{} reads tensor '{:.200}', expected a flattened image, as the job's layer '{}' reads", file.node,
                          Printable(file.input), model.name));
      return false;
    }
    const size_t flattened = file.kind == WeightsKind::kBatchNormalization ? file.weights.size() : 1;  // all, or the kernel
    for (size_t i = 0; i < flattened; ++i) {
      std::vector<float>& values = file.weights[i].values;
      const int64_t others = static_cast<int64_t>(values.size()) / (pixels * channels);
      values = Permuted(values, {channels, pixels, others}, std::array{1, 0, 2});
    }
    return true;
  }

  const ElementOrders orders_;
  const ParameterSet& parameters_;
  std::vector<std::string> mistakes_;
  std::vector<std::pair<int, std::vector<float>>> values_;  // by key
};

absl::StatusOr<onnx::ModelProto> ParseOnnx(std::string_view bytes) {
  onnx::ModelProto model;
  const bool parsed = bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max()) &&
                      model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (!parsed || !model.has_graph()) return absl::DataLossError("is not an ONNX file, or is cut off");
  return model;
}

absl::Status Import(std::string_view bytes, const ModelSpec& spec, ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const onnx::ModelProto model, ParseOnnx(bytes));
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(spec, /*batch=*/1));
  TY_ASSIGN_OR_RETURN(std::vector<FileLayer> layers, LayersOfOnnx(model.graph(), 2 * parameters.elements() + kMoreElements));
  Match match(model.graph(), parameters);
  match.Layers(std::move(layers), ModelLayersOf(graph));
  TY_RETURN_IF_ERROR(match.status());
  match.Store(parameters);
  return absl::OkStatus();
}

}  // namespace

int64_t MostOnnxBytes(int64_t elements) {
  const int64_t twice = 2 * static_cast<int64_t>(sizeof(float)) * elements;
  return std::min<int64_t>(twice + kStructureBytes, std::numeric_limits<int32_t>::max());
}

absl::Status ImportOnnx(std::string_view bytes, const std::string& name, const ModelSpec& spec, ParameterSet& parameters) {
  return WithContext(Import(bytes, spec, parameters), name);
}

}  // namespace trainyard::engine
