// Recurrent layers, unrolled: the input's products of all steps come in as one value z (a
// time-distributed DenseOp), the recurrence runs here. With p_t = z_t + h_(t-1) R and gates side by
// side in Keras' order:
//   simple RNN   h = activation(p)
//   LSTM         i, f, g, o = sigmoid(p_i), sigmoid(p_f), tanh(p_g), sigmoid(p_o); c = f c_(t-1) + i g; h = o tanh(c)
//                Hochreiter, Schmidhuber 1997, with the forget gate of Gers, Schmidhuber, Cummins 2000
//   GRU          with q = h_(t-1) R + bias[1]: z, r = sigmoid(z_t + bias[0] + q) of their parts, k = tanh(z_t,k + bias[0] + r q_k),
//                h = z h_(t-1) + (1 - z) k; Cho et al. 2014, with the reset gate after the product (Keras' reset_after, as in cuDNN)
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// G: how many vectors of U one step multiplies out.
int64_t GateCount(Cell cell);

// Where a node's inputs stand; -1: it has none such.
struct RecurrentInputs {
  int z = 0, kernel = 1, bias = -1, h = -1, c = -1, count = 2;
  explicit RecurrentInputs(const RecurrentOp& op);
};
struct RecurrentGradientInputs {
  int dy = -1, dlast = -1, kernel = -1, y = -1, gates = -1, cells = -1, h = -1, c = -1, count = 0;
  explicit RecurrentGradientInputs(const RecurrentGradientOp& op);
};
// Outputs of a RecurrentOp; a simple RNN has the first two, a GRU the first three.
struct RecurrentOutputs {
  static constexpr int kSequence = 0;  // y
  static constexpr int kLast = 1;      // h after the last step
  static constexpr int kGates = 2;     // LSTM: i, f, g, o; GRU: z, r, k, q_k
  static constexpr int kLastCell = 3;
  static constexpr int kCells = 4;
};

// `inputs` in the order of RecurrentInputs.
absl::StatusOr<std::vector<ValueSpec>> InferRecurrent(const RecurrentOp& op, std::span<const ValueSpec> inputs);

int64_t OpFlops(const RecurrentOp& op, const NodeView& node);
int64_t OpFlops(const RecurrentGradientOp& op, const NodeView& node);
void AddGradient(const RecurrentOp& op, GradientContext& context);

}  // namespace trainyard::engine
