// The common part of lstm, gru, simpleRnn and bidirectional. Formulas are in ops/recurrent.h.
#pragma once

#include <string>

#include "trainer/model/layers/layer.h"

namespace trainyard::engine {

// An LSTM, GRU or simple RNN over [steps, features].
struct RecurrentFields {
  Cell cell = Cell::kLstm;
  int64_t units = 1;
  Activation activation = Activation::kTanh;  // simple RNN only
  bool return_sequences = false;              // [steps, units], otherwise the last step's [units]
  bool stateful = false;                      // starts where the batch before ended, otherwise with zeros
  bool go_backwards = false;                  // from the last step to the first
  bool unit_forget_bias = true;               // LSTM: the forget gate's bias starts with 1
  WeightsSpec weights;
  Initializer recurrent_initializer = Initializer::kOrthogonal;
};

RecurrentFields ReadRecurrent(FieldReader& fields, Cell cell);

// Adds the node called `name` that runs over the builder's input [batch, steps, features], with
// parameters and states below that name. Gives the layer's output.
absl::StatusOr<Value> Unroll(const RecurrentFields& layer, const std::string& name, bool reverse, LayerBuilder& builder);

}  // namespace trainyard::engine
