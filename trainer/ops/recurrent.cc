#include "trainer/ops/recurrent.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {
namespace {

absl::Status ExpectState(std::string_view what, const ValueSpec& spec, const Shape& shape, std::string_view axes) {
  TY_RETURN_IF_ERROR(ExpectReal(what, spec));
  if (spec.batched && spec.shape == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} has shape {}, expected {} {}", what, spec.shape.ToString(), axes, shape.ToString()));
}

}  // namespace

int64_t GateCount(Cell cell) {
  switch (cell) {
    case Cell::kSimpleRnn:
      return 1;
    case Cell::kLstm:
      return 4;
    case Cell::kGru:
      return 3;
  }
  return 1;
}

RecurrentInputs::RecurrentInputs(const RecurrentOp& op) {
  if (op.bias) bias = count++;
  if (op.initial) h = count++;
  if (op.initial && op.cell == Cell::kLstm) c = count++;
}

RecurrentGradientInputs::RecurrentGradientInputs(const RecurrentGradientOp& op) {
  if (op.sequence) dy = count++;
  if (op.last) dlast = count++;
  kernel = count++;
  y = count++;
  if (op.forward.cell != Cell::kSimpleRnn) gates = count++;
  if (op.forward.cell == Cell::kLstm) cells = count++;
  if (op.forward.initial) h = count++;
  if (op.forward.initial && op.forward.cell == Cell::kLstm) c = count++;
}

absl::StatusOr<std::vector<ValueSpec>> InferRecurrent(const RecurrentOp& op, std::span<const ValueSpec> inputs) {
  const RecurrentInputs at(op);
  TY_CHECK(static_cast<int>(inputs.size()) == at.count);
  const ValueSpec& z = inputs[at.z];
  const int64_t gates = GateCount(op.cell);
  if (op.bias && op.cell != Cell::kGru) return absl::InvalidArgumentError("only a GRU takes its bias in the recurrence");
  TY_RETURN_IF_ERROR(ExpectReal("input", z));
  if (!z.batched || z.shape.rank() != 3 || z.shape[2] % gates != 0) {
    return absl::InvalidArgumentError(fmt::format("input has shape {}, expected [batch, steps, {} * units]", z.shape.ToString(), gates));
  }
  const int64_t units = z.shape[2] / gates;
  const Shape state = {z.shape[0], units};
  TY_RETURN_IF_ERROR(ExpectWeights("recurrent kernel", inputs[at.kernel], {units, z.shape[2]}, "[units, gates * units]"));
  if (at.bias >= 0) TY_RETURN_IF_ERROR(ExpectWeights("bias", inputs[at.bias], {2, z.shape[2]}, "[2, gates * units]"));
  if (at.h >= 0) TY_RETURN_IF_ERROR(ExpectState("initial h", inputs[at.h], state, "[batch, units]"));
  if (at.c >= 0) TY_RETURN_IF_ERROR(ExpectState("initial c", inputs[at.c], state, "[batch, units]"));
  const ValueSpec sequence = {.shape = {z.shape[0], z.shape[1], units}, .batched = true};
  const ValueSpec last = {.shape = state, .batched = true};
  ValueSpec four = sequence;
  four.shape.Set(-1, 4 * units);
  std::vector<ValueSpec> outputs = {sequence, last};
  if (op.cell != Cell::kSimpleRnn) outputs.push_back(four);
  if (op.cell == Cell::kLstm) outputs.insert(outputs.end(), {last, sequence});
  return outputs;
}

// The product of h, then for each unit: sums, multiplications and transcendentals.
int64_t OpFlops(const RecurrentOp& op, const NodeView& node) {
  const Shape& y = node.out().shape;
  const int64_t pointwise = op.cell == Cell::kLstm ? 12 : op.cell == Cell::kGru ? 14 : 2;
  return y.elements() * (2 * GateCount(op.cell) * y[2] + pointwise);
}

// dz R^T at each step, h^T dz over all of them.
int64_t OpFlops(const RecurrentGradientOp& op, const NodeView& node) {
  const int64_t gates = GateCount(op.forward.cell);
  const int64_t units = node.out().shape[2] / gates;
  const int64_t pointwise = op.forward.cell == Cell::kLstm ? 24 : op.forward.cell == Cell::kGru ? 22 : 3;
  return node.out().shape.elements() / gates * (4 * gates * units + pointwise);
}

void AddGradient(const RecurrentOp& op, GradientContext& context) {
  const RecurrentInputs at(op);
  RecurrentGradientOp gradient{.forward = op,
                               .sequence = context.output_gradient(RecurrentOutputs::kSequence).valid(),
                               .last = context.output_gradient(RecurrentOutputs::kLast).valid()};
  TY_CHECK(gradient.sequence || gradient.last);
  std::vector<Value> inputs;
  if (gradient.sequence) inputs.push_back(context.output_gradient(RecurrentOutputs::kSequence));
  if (gradient.last) inputs.push_back(context.output_gradient(RecurrentOutputs::kLast));
  inputs.push_back(context.input(at.kernel));
  inputs.push_back(context.output(RecurrentOutputs::kSequence));
  if (op.cell != Cell::kSimpleRnn) inputs.push_back(context.output(RecurrentOutputs::kGates));
  if (op.cell == Cell::kLstm) inputs.push_back(context.output(RecurrentOutputs::kCells));
  if (op.initial) inputs.push_back(context.input(at.h));
  if (op.initial && op.cell == Cell::kLstm) inputs.push_back(context.input(at.c));
  std::vector<ValueSpec> outputs = {context.spec(context.input(at.z)), context.spec(context.input(at.kernel))};
  if (op.bias) outputs.push_back(context.spec(context.input(at.bias)));
  const NodeId node = context.Add("recurrence", gradient, std::move(inputs), std::move(outputs));
  context.SetInputGradient(at.z, {node, 0});
  context.SetInputGradient(at.kernel, {node, 1});
  if (op.bias) context.SetInputGradient(at.bias, {node, 2});
}

}  // namespace trainyard::engine
