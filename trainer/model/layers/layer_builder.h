// A layer's tools to build with: its name and inputs, the graph that grows, and results beside its
// output.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/model/layers/layer_fields.h"
#include "trainer/model/layers/start_value.h"
#include "trainer/ops/builder.h"

namespace trainyard::engine {

// Results of layers beside their outputs.
struct LayerResults {
  struct NextValue {
    Value parameter, value;
  };
  std::vector<StartValue> starts;                 // of the parameters, by key
  std::vector<NextValue> next_values;             // moving statistics
  std::map<float, std::vector<Value>> penalties;  // weights by l2
};

// The product as a number that cannot overflow.
double Product(std::span<const int64_t> extents);
// InvalidArgument for an activation of one example, or a parameter, that is too large: no product
// of extents overflows then.
absl::Status CheckElements(std::string_view what, double elements);

// Made for one layer at a time. Errors are InvalidArgument without the layer's name, which the
// caller knows.
class LayerBuilder {
 public:
  // `skip_softmax`: the loss applies softmax itself, so the layer leaves its own out. `inputs` has
  // at least one value.
  LayerBuilder(GraphBuilder& graph, LayerResults& results, std::string name, std::vector<Value> inputs, bool skip_softmax)
      : graph_(graph), results_(results), name_(std::move(name)), inputs_(std::move(inputs)), skip_softmax_(skip_softmax) {}

  GraphBuilder& graph() { return graph_; }
  const std::string& name() const { return name_; }
  // "conv1" + "kernel" → "conv1/kernel"
  std::string Name(std::string_view part) const;
  Value input() const { return inputs_[0]; }
  std::span<const Value> inputs() const { return inputs_; }
  // By value: adding nodes moves the graph's own.
  Shape InputShape() const { return graph_.spec(inputs_[0]).shape; }

  // `name` is the whole name: Name("bias").
  absl::StatusOr<Value> Parameter(const std::string& name, const Shape& shape, const StartValue& start, bool trainable = true);
  // A parameter of WeightsSpec::kernel_initializer, with its penalty.
  absl::StatusOr<Value> Kernel(const std::string& name, const Shape& shape, const WeightsSpec& weights);
  // Bias and activation of a product with `outputs` channels.
  absl::StatusOr<Value> Finish(Value product, int64_t outputs, const WeightsSpec& weights, LayerActivation activation);
  absl::StatusOr<Value> Activate(const std::string& name, Value x, LayerActivation activation);
  // `parameter`, which is not trainable, becomes `value` after a training step.
  void NextValue(Value parameter, Value value) { results_.next_values.push_back({parameter, value}); }

  // "conv2d takes [height, width, channels], found an input of shape [784]"
  absl::Status WrongRank(std::string_view kind, std::string_view expected) const;

 private:
  GraphBuilder& graph_;
  LayerResults& results_;
  const std::string name_;
  const std::vector<Value> inputs_;
  const bool skip_softmax_;
};

// [height, width] of one example as text, of a batch's shape.
std::string ExampleText(const Shape& shape);

}  // namespace trainyard::engine
