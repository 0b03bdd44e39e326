// One step of a recurrent layer beside its products: units are lanes.
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Vectors of one row of units, the last one perhaps in part; null rows are zeros and take no
// stores.
struct Part {
  int first, count;
  V Get(const float* row) const {
    if (row == nullptr) return V{};
    return LoadPart(row + first, count);
  }
  void Put(float* row, V v) const {
    if (row == nullptr) return;
    StorePart(row + first, v, count);
  }
};

inline const float* Row(const float* p, int64_t row, int64_t stride) { return p == nullptr ? nullptr : p + row * stride; }
inline float* Row(float* p, int64_t row, int64_t stride) { return p == nullptr ? nullptr : p + row * stride; }
inline const float* At(const float* p, int64_t offset) { return p == nullptr ? nullptr : p + offset; }
inline float* At(float* p, int64_t offset) { return p == nullptr ? nullptr : p + offset; }

template <typename PerPart>
void ForParts(int rows, int units, PerPart&& per_part) {
  for (int row = 0; row < rows; ++row) {
    for (int u = 0; u < units; u += kLanes) per_part(int64_t{row}, Part{u, MinInt(kLanes, units - u)});
  }
}

template <Activation kActivation>
void SimpleStep(const RecurrentStepArgs& args) {
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const V sum = part.Get(Row(args.z, row, args.z_row)) + part.Get(args.q + row * args.units);
    part.Put(Row(args.y, row, args.y_row), ActivationKernel<kActivation>::Forward(sum));
  });
}

void LstmStep(const RecurrentStepArgs& args) {
  const int64_t units = args.units;
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const float* z = Row(args.z, row, args.z_row);
    const float* q = args.q + row * 4 * units;
    const auto sum = [&](int gate) { return part.Get(z + gate * units) + part.Get(q + gate * units); };
    const V i = Sigmoid(sum(0));
    const V f = Sigmoid(sum(1));
    const V g = Tanh(sum(2));
    const V o = Sigmoid(sum(3));
    const V c = f * part.Get(Row(args.c, row, args.c_row)) + i * g;
    part.Put(Row(args.cells, row, args.cells_row), c);
    part.Put(Row(args.y, row, args.y_row), o * Tanh(c));
    float* gates = Row(args.gates, row, args.gates_row);
    part.Put(gates, i);
    part.Put(At(gates, units), f);
    part.Put(At(gates, 2 * units), g);
    part.Put(At(gates, 3 * units), o);
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
    float* gates = Row(args.gates, row, args.gates_row);
    part.Put(gates, update);
    part.Put(At(gates, units), reset);
    part.Put(At(gates, 2 * units), candidate);
    part.Put(At(gates, 3 * units), inside(2));
  });
}

// The gradient of a step's h: from the step after and from outside.
inline V Arriving(const RecurrentStepGradientArgs& args, int64_t row, Part part) {
  return part.Get(args.dh + row * args.units) + part.Get(Row(args.dy, row, args.dy_row));
}

template <Activation kActivation>
void SimpleStepGradient(const RecurrentStepGradientArgs& args) {
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    part.Put(Row(args.dz, row, args.dz_row),
             ActivationKernel<kActivation>::Gradient(Arriving(args, row, part), part.Get(Row(args.y, row, args.y_row))));
  });
}

void LstmStepGradient(const RecurrentStepGradientArgs& args) {
  const int64_t units = args.units;
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const float* gates = Row(args.gates, row, args.gates_row);
    const V i = part.Get(gates);
    const V f = part.Get(gates + units);
    const V g = part.Get(gates + 2 * units);
    const V o = part.Get(gates + 3 * units);
    const V d = Arriving(args, row, part);
    const V active = Tanh(part.Get(Row(args.cells, row, args.cells_row)));
    float* const dc = args.dc + row * units;
    const V cell = part.Get(dc) + d * o * (1.0f - active * active);
    part.Put(dc, cell * f);
    float* const dz = args.dz + row * args.dz_row;
    part.Put(dz, cell * g * i * (1.0f - i));
    part.Put(dz + units, cell * part.Get(Row(args.c, row, args.c_row)) * f * (1.0f - f));
    part.Put(dz + 2 * units, cell * i * (1.0f - g * g));
    part.Put(dz + 3 * units, d * active * o * (1.0f - o));
  });
}

void GruStepGradient(const RecurrentStepGradientArgs& args) {
  const int64_t units = args.units;
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const float* gates = Row(args.gates, row, args.gates_row);
    const V update = part.Get(gates);
    const V reset = part.Get(gates + units);
    const V candidate = part.Get(gates + 2 * units);
    const V inside = part.Get(gates + 3 * units);
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
  if (args.cell == Cell::kLstm) return LstmStep(args);
  if (args.cell == Cell::kGru) return GruStep(args);
  VisitActivation(args.activation, [&]<Activation kActivation>() { SimpleStep<kActivation>(args); });
}

void RecurrentStepGradient(const RecurrentStepGradientArgs& args) {
  if (args.cell == Cell::kLstm) return LstmStepGradient(args);
  if (args.cell == Cell::kGru) return GruStepGradient(args);
  VisitActivation(args.activation, [&]<Activation kActivation>() { SimpleStepGradient<kActivation>(args); });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
