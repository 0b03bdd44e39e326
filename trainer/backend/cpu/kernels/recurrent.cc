#include "trainer/backend/cpu/kernels/recurrent.h"

#include "trainer/backend/cpu/kernels/isa.h"

namespace trainyard::engine {
namespace {

template <Activation kActivation>
void SimpleStep(const RecurrentStepArgs& args) {
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const V sum = part.Get(Row(args.z, row, args.z_row)) + part.Get(args.q + row * args.units);
    part.Put(Row(args.y, row, args.y_row), ActivationKernel<kActivation>::Forward(sum));
  });
}

void GruStep(const RecurrentStepArgs& args) {
  const int64_t units = args.units;
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const float* z = Row(args.z, row, args.z_row);
    const float* q = args.q + row * 3 * units;
    const auto outside = [&](int gate) { return part.Get(z + gate * units) + part.Get(At(args.z_bias, gate * units)); };
    const auto inside = [&](int gate) { return part.Get(q + gate * units); };
    const V update = Sigmoid(outside(0) + inside(0));
    const V reset = Sigmoid(outside(1) + inside(1));
    const V candidate = Tanh(outside(2) + reset * inside(2));
    part.Put(Row(args.y, row, args.y_row), update * part.Get(Row(args.h, row, args.h_row)) + (1.0f - update) * candidate);
    Keep<WideRows>(args, row, 0, part, update);
    Keep<WideRows>(args, row, 1, part, reset);
    Keep<WideRows>(args, row, 2, part, candidate);
    Keep<WideRows>(args, row, 3, part, inside(2));
  });
}

template <Activation kActivation>
void SimpleStepGradient(const RecurrentStepGradientArgs& args) {
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    part.Put(Row(args.dz, row, args.dz_row),
             ActivationKernel<kActivation>::Gradient(Arriving(args, row, part), part.Get(Row(args.y, row, args.y_row))));
  });
}

void GruStepGradient(const RecurrentStepGradientArgs& args) {
  const int64_t units = args.units;
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const V update = Kept<WideRows>(args, row, 0, part);
    const V reset = Kept<WideRows>(args, row, 1, part);
    const V candidate = Kept<WideRows>(args, row, 2, part);
    const V inside = Kept<WideRows>(args, row, 3, part);
    const V d = Arriving(args, row, part);
    part.Put(args.dh + row * units, d * update);
    const V dcandidate = d * (1.0f - update) * (1.0f - candidate * candidate);
    const V dreset = dcandidate * inside * reset * (1.0f - reset);
    const V dupdate = d * (part.Get(Row(args.h, row, args.h_row)) - candidate) * update * (1.0f - update);
    float* const dz = args.dz + row * args.dz_row;
    float* const dq = args.dq + row * args.dz_row;
    part.Put(dz, dupdate);
    part.Put(dz + units, dreset);
    part.Put(dz + 2 * units, dcandidate);
    part.Put(dq, dupdate);
    part.Put(dq + units, dreset);
    part.Put(dq + 2 * units, dcandidate * reset);
  });
}

}  // namespace

namespace TRAINYARD_ISA {

void RecurrentStep(const RecurrentStepArgs& args) {
  if (args.cell == Cell::kLstm) return LstmSteps<WideRows>::Run(args);
  if (args.cell == Cell::kGru) return GruStep(args);
  VisitActivation(args.activation, [&]<Activation kActivation>() { SimpleStep<kActivation>(args); });
}

void RecurrentStepGradient(const RecurrentStepGradientArgs& args) {
  if (args.cell == Cell::kLstm) return LstmSteps<WideRows>::RunGradient(args);
  if (args.cell == Cell::kGru) return GruStepGradient(args);
  VisitActivation(args.activation, [&]<Activation kActivation>() { SimpleStepGradient<kActivation>(args); });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
