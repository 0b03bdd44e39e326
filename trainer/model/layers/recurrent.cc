// lstm, gru and simpleRnn.
#include "trainer/model/layers/recurrent.h"

#include <array>
#include <memory>

#include "trainer/base/status_macros.h"
#include "trainer/model/layers/kinds.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

class Recurrent final : public Layer {
 public:
  explicit Recurrent(const RecurrentFields& fields) : fields_(fields) {}

  absl::StatusOr<Value> Build(LayerBuilder& builder) const override {
    return Unroll(fields_, builder.name(), fields_.go_backwards, builder);
  }

  std::string_view why_not_stepwise() const override { return fields_.go_backwards ? "goes backwards" : ""; }

  LayerPointer Carrying() const override {
    if (fields_.stateful) return nullptr;
    RecurrentFields carrying = fields_;
    carrying.stateful = true;
    return std::make_shared<Recurrent>(carrying);
  }

 private:
  const RecurrentFields fields_;
};

}  // namespace

RecurrentFields ReadRecurrent(FieldReader& fields, Cell cell) {
  RecurrentFields layer{.cell = cell};
  layer.units = fields.Integer("units", kChannels);
  if (cell == Cell::kSimpleRnn) {
    const LayerActivation activation = ReadActivation(fields, "activation", LayerActivation{layer.activation});
    layer.activation = activation.function;
    if (activation.softmax) fields.Error("activation", "found \"softmax\", which no simpleRnn takes");
  }
  layer.return_sequences = fields.Bool("returnSequences", false);
  layer.stateful = fields.Bool("stateful", false);
  layer.go_backwards = fields.Bool("goBackwards", false);
  if (cell == Cell::kLstm) layer.unit_forget_bias = fields.Bool("unitForgetBias", true);
  layer.weights = ReadWeights(fields);
  layer.recurrent_initializer = ReadInitializer(fields, "recurrentInitializer", layer.recurrent_initializer);
  return layer;
}

absl::StatusOr<Value> Unroll(const RecurrentFields& layer, const std::string& name, bool reverse, LayerBuilder& builder) {
  const Shape input = builder.InputShape();
  if (input.rank() != 3) return builder.WrongRank("a recurrent layer", "[steps, features]");
  GraphBuilder& graph = builder.graph();
  const int64_t width = GateCount(layer.cell) * layer.units;
  const bool gru = layer.cell == Cell::kGru;
  RecurrentOp op{.cell = layer.cell, .activation = layer.activation, .initial = layer.stateful, .reverse = reverse};
  TY_RETURN_IF_ERROR(CheckElements("the kernel", Product(std::array{input[2], width})));
  TY_RETURN_IF_ERROR(CheckElements("the recurrent kernel", Product(std::array{layer.units, width})));
  TY_ASSIGN_OR_RETURN(const Value kernel, builder.Kernel(name + "/kernel", Shape({input[2], width}), layer.weights));
  TY_ASSIGN_OR_RETURN(Value z, graph.Dense(name + "/inputs", builder.input(), kernel));
  std::vector<Value> inputs(2);
  TY_ASSIGN_OR_RETURN(inputs[1], builder.Parameter(name + "/recurrent_kernel", Shape({layer.units, width}), {layer.recurrent_initializer}));
  if (layer.weights.use_bias) {
    StartValue start{layer.weights.bias_initializer};
    if (layer.cell == Cell::kLstm && layer.unit_forget_bias) {
      start.ones_begin = layer.units;
      start.ones_end = 2 * layer.units;
    }
    TY_ASSIGN_OR_RETURN(const Value bias, builder.Parameter(name + "/bias", gru ? Shape({2, width}) : Shape({width}), start));
    if (gru) {
      op.bias = true;
      inputs.push_back(bias);
    } else {
      TY_ASSIGN_OR_RETURN(z, graph.Bias(name + "/inputs/bias_add", z, bias));
    }
  }
  inputs[0] = z;
  const size_t first_state = inputs.size();
  if (layer.stateful) {
    const Shape state({input[0], layer.units});
    TY_ASSIGN_OR_RETURN(inputs.emplace_back(), graph.State(name + "/h", state));
    if (layer.cell == Cell::kLstm) {
      TY_ASSIGN_OR_RETURN(inputs.emplace_back(), graph.State(name + "/c", state));
    }
  }
  TY_ASSIGN_OR_RETURN(const Value y, graph.Recurrent(name, op, inputs));
  constexpr std::array kNext = {RecurrentOutputs::kLast, RecurrentOutputs::kLastCell};
  for (size_t i = first_state; i < inputs.size(); ++i) {
    TY_RETURN_IF_ERROR(graph.NextState(inputs[i], {y.node, kNext[i - first_state]}));
  }
  return Value{y.node, layer.return_sequences ? RecurrentOutputs::kSequence : RecurrentOutputs::kLast};
}

LayerPointer ReadLstm(FieldReader& fields) { return std::make_shared<Recurrent>(ReadRecurrent(fields, Cell::kLstm)); }
LayerPointer ReadGru(FieldReader& fields) { return std::make_shared<Recurrent>(ReadRecurrent(fields, Cell::kGru)); }
LayerPointer ReadSimpleRnn(FieldReader& fields) { return std::make_shared<Recurrent>(ReadRecurrent(fields, Cell::kSimpleRnn)); }

}  // namespace trainyard::engine
