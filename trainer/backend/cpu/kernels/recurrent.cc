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

template <Activation kActivation>
void SimpleStepGradient(const RecurrentStepGradientArgs& args) {
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    part.Put(Row(args.dz, row, args.dz_row),
             ActivationKernel<kActivation>::Gradient(Arriving(args, row, part), part.Get(Row(args.y, row, args.y_row))));
  });
}

}  // namespace

namespace TRAINYARD_ISA {

void RecurrentStep(const RecurrentStepArgs& args) {
  if (args.cell != Cell::kSimpleRnn) return GatedSteps<WideRows>::Run(args);
  VisitActivation(args.activation, [&]<Activation kActivation>() { SimpleStep<kActivation>(args); });
}

void RecurrentStepGradient(const RecurrentStepGradientArgs& args) {
  if (args.cell != Cell::kSimpleRnn) return GatedSteps<WideRows>::RunGradient(args);
  VisitActivation(args.activation, [&]<Activation kActivation>() { SimpleStepGradient<kActivation>(args); });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
