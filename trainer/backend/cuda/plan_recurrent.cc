// Recurrent layers: a product and the gates of all samples at each step; backward the same from the
// last step on, then the gradient of the recurrent kernel as one product over all steps.
#include "trainer/backend/cuda/planned_product.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine::cuda {
namespace {

struct RecurrentSizes {
  int64_t samples, steps, units, width;
  bool reverse;

  RecurrentSizes(const RecurrentOp& op, const Shape& y)
      : samples(y[0]), steps(y[1]), units(y[2]), width(GateCount(op.cell) * y[2]), reverse(op.reverse) {}
  // The step that runs as the count-th.
  CellPlace At(int64_t count) const { return {units, steps, reverse ? steps - 1 - count : count}; }
  int64_t of_a_step() const { return samples * units; }
  int64_t of_all_steps() const { return samples * steps * units; }
};

// to [N, U] = from, or zeros where that is null.
absl::Status CopyOrClear(Device& device, const float* from, float* to, int64_t count) {
  if (from == nullptr) return device.Launch(Each<Fill>{{to, 0.0f}, count});
  return device.Launch(Each<CopyRows<float, float>>{{from, to, count, count, count}, count});
}

const float* InputOrNull(const KernelContext& context, int i) { return i < 0 ? nullptr : context.input<float>(i); }

}  // namespace

Planned PlanNode(const Planner& planner, const NodeView& node, const RecurrentOp& op) {
  const RecurrentSizes n(op, node.out().shape);
  ScratchLayout scratch;
  const ScratchPart<float> h_part = scratch.Add<float>(n.of_a_step());
  const ScratchPart<float> c_part = scratch.Add<float>(op.cell == Cell::kLstm ? n.of_a_step() : 0);
  const ScratchPart<float> q_part = scratch.Add<float>(n.samples * n.width);
  TY_ASSIGN_OR_RETURN(
      const PlannedProduct product,
      PlannedProduct::Make(planner, {.m = n.samples, .n = n.width, .k = n.units, .a = {n.units}, .b = {n.width}, .c_stride = n.width},
                           scratch));
  return NodePlan{[&device = planner.device, op, n, at = RecurrentInputs(op), h_part, c_part, q_part,
                   product](const KernelContext& context) -> absl::Status {
                    const float* const z = context.input<float>(at.z);
                    const float* const kernel = context.input<float>(at.kernel);
                    float* const y = context.output<float>(RecurrentOutputs::kSequence);
                    float* const gates = op.cell == Cell::kSimpleRnn ? nullptr : context.output<float>(RecurrentOutputs::kGates);
                    float* const h = h_part.In(context);
                    float* const c = c_part.In(context);
                    float* const q = q_part.In(context);
                    TY_RETURN_IF_ERROR(CopyOrClear(device, InputOrNull(context, at.h), h, n.of_a_step()));
                    if (c != nullptr) TY_RETURN_IF_ERROR(CopyOrClear(device, InputOrNull(context, at.c), c, n.of_a_step()));
                    for (int64_t count = 0; count < n.steps; ++count) {
                      TY_RETURN_IF_ERROR(product.Run(context, h, kernel, q));
                      const CellPlace place = n.At(count);
                      Work gate;
                      switch (op.cell) {
                        case Cell::kSimpleRnn:
                          gate = Each<RnnStep>{{place, z, q, h, y, op.activation}, n.of_a_step()};
                          break;
                        case Cell::kLstm:
                          gate =
                              Each<LstmStep>{{place, z, q, h, c, y, gates, context.output<float>(RecurrentOutputs::kCells)}, n.of_a_step()};
                          break;
                        case Cell::kGru:
                          gate = Each<GruStep>{{place, z, q, InputOrNull(context, at.bias), h, y, gates}, n.of_a_step()};
                          break;
                      }
                      TY_RETURN_IF_ERROR(device.Launch(gate));
                    }
                    if (float* const last = context.output<float>(RecurrentOutputs::kLast)) {
                      TY_RETURN_IF_ERROR(CopyOrClear(device, h, last, n.of_a_step()));
                    }
                    if (c == nullptr || context.output<float>(RecurrentOutputs::kLastCell) == nullptr) return absl::OkStatus();
                    return CopyOrClear(device, c, context.output<float>(RecurrentOutputs::kLastCell), n.of_a_step());
                  },
                  scratch.bytes()};
}

namespace {

// What a backward pass works with. dq is the gradient of the recurrent product: dz itself but for a
// GRU.
struct BackwardParts {
  ScratchPart<float> dh, dc, h_before, c_before, dq;
  ScratchPart<void> partial;
  PlannedProduct to_h, to_kernel;
};

absl::StatusOr<BackwardParts> PartsOf(const Planner& planner, const RecurrentSizes& n, Cell cell, bool bias, ScratchLayout& scratch) {
  BackwardParts parts;
  parts.dh = scratch.Add<float>(n.of_a_step());
  parts.dc = scratch.Add<float>(cell == Cell::kLstm ? n.of_a_step() : 0);
  parts.h_before = scratch.Add<float>(n.of_all_steps());
  parts.c_before = scratch.Add<float>(cell == Cell::kLstm ? n.of_all_steps() : 0);
  parts.dq = scratch.Add<float>(cell == Cell::kGru ? n.samples * n.steps * n.width : 0);
  parts.partial = scratch.AddBytes<void>(bias ? PartialBytes<SumRows<float>>(n.width, n.samples * n.steps) : 0);
  // The rows of one step of dq are those of all steps, `steps` rows apart.
  TY_ASSIGN_OR_RETURN(parts.to_h, PlannedProduct::Make(planner,
                                                       {.m = n.samples,
                                                        .n = n.units,
                                                        .k = n.width,
                                                        .a = {n.steps * n.width},
                                                        .b = {n.width, /*transposed=*/true},
                                                        .c_stride = n.units,
                                                        .onto = cell == Cell::kGru,
                                                        .alignment = AlignmentBehind(n.width * static_cast<int64_t>(sizeof(float)))},
                                                       scratch));
  TY_ASSIGN_OR_RETURN(
      parts.to_kernel,
      PlannedProduct::Make(
          planner,
          {.m = n.units, .n = n.width, .k = n.samples * n.steps, .a = {n.units, /*transposed=*/true}, .b = {n.width}, .c_stride = n.width},
          scratch));
  return parts;
}

}  // namespace

Planned PlanNode(const Planner& planner, const NodeView& node, const RecurrentGradientOp& op) {
  const RecurrentGradientInputs at(op);
  const RecurrentSizes n(op.forward, node.in(at.y).shape);
  const Cell cell = op.forward.cell;
  ScratchLayout scratch;
  TY_ASSIGN_OR_RETURN(const BackwardParts parts, PartsOf(planner, n, cell, op.forward.bias, scratch));
  return NodePlan{[&device = planner.device, op, n, at, cell, parts](const KernelContext& context) -> absl::Status {
                    const float* const kernel = context.input<float>(at.kernel);
                    const float* const y = context.input<float>(at.y);
                    const float* const gates = InputOrNull(context, at.gates);
                    const float* const cells = InputOrNull(context, at.cells);
                    const float* const dy = op.sequence ? context.input<float>(at.dy) : nullptr;
                    float* const dz = context.output<float>(0);
                    float* const dh = parts.dh.In(context);
                    float* const dc = parts.dc.In(context);
                    float* const h_before = parts.h_before.In(context);
                    float* const c_before = parts.c_before.In(context);
                    float* const dq = cell == Cell::kGru ? parts.dq.In(context) : dz;
                    TY_RETURN_IF_ERROR(CopyOrClear(device, op.last ? context.input<float>(at.dlast) : nullptr, dh, n.of_a_step()));
                    TY_RETURN_IF_ERROR(device.Launch(
                        Each<ShiftStates>{{y, InputOrNull(context, at.h), h_before, n.units, n.steps, n.reverse}, n.of_all_steps()}));
                    if (cell == Cell::kLstm) {
                      TY_RETURN_IF_ERROR(CopyOrClear(device, nullptr, dc, n.of_a_step()));
                      TY_RETURN_IF_ERROR(device.Launch(
                          Each<ShiftStates>{{cells, InputOrNull(context, at.c), c_before, n.units, n.steps, n.reverse}, n.of_all_steps()}));
                    }
                    for (int64_t count = n.steps - 1; count >= 0; --count) {
                      const CellPlace place = n.At(count);
                      Work gate;
                      switch (cell) {
                        case Cell::kSimpleRnn:
                          gate = Each<RnnStepBack>{{place, dy, y, dh, dz, op.forward.activation}, n.of_a_step()};
                          break;
                        case Cell::kLstm:
                          gate = Each<LstmStepBack>{{place, dy, gates, cells, c_before, dh, dc, dz}, n.of_a_step()};
                          break;
                        case Cell::kGru:
                          gate = Each<GruStepBack>{{place, dy, gates, h_before, dh, dz, dq}, n.of_a_step()};
                          break;
                      }
                      TY_RETURN_IF_ERROR(device.Launch(gate));
                      if (count > 0) TY_RETURN_IF_ERROR(parts.to_h.Run(context, dq + place.step * n.width, kernel, dh));
                    }
                    TY_RETURN_IF_ERROR(parts.to_kernel.Run(context, h_before, dq, context.output<float>(1)));
                    if (!op.forward.bias || context.output<float>(2) == nullptr) return absl::OkStatus();
                    float* const dbias = context.output<float>(2);
                    const int64_t rows = n.samples * n.steps;
                    void* const partial = parts.partial.In(context);
                    TY_RETURN_IF_ERROR(device.Launch(Reduce<SumRows<float>>{{{}, dz, dbias, n.width}, n.width, rows, partial}));
                    return device.Launch(Reduce<SumRows<float>>{{{}, dq, dbias + n.width, n.width}, n.width, rows, partial});
                  },
                  scratch.bytes()};
}

}  // namespace trainyard::engine::cuda
