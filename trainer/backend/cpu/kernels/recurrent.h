// One step of a recurrent layer beside its products: units are lanes. Gates (row_values.h) is how
// an LSTM keeps its gates for the step back.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/row_values.h"
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

template <typename PerPart>
void ForParts(int rows, int units, PerPart&& per_part) {
  for (int row = 0; row < rows; ++row) {
    for (int u = 0; u < units; u += kLanes) per_part(int64_t{row}, Part{u, MinInt(kLanes, units - u)});
  }
}

// Of a sample's step gate number `gate`; null gates are not kept.
template <typename Gates>
void Keep(const RecurrentStepArgs& args, int64_t row, int64_t gate, Part part, V v) {
  if (args.gates == nullptr) return;
  auto* const gates = static_cast<typename Gates::Element*>(args.gates) + row * args.gates_row;
  Gates::Store(gates + gate * args.units + part.first, v, part.count);
}
template <typename Gates>
V Kept(const RecurrentStepGradientArgs& args, int64_t row, int64_t gate, Part part) {
  const auto* const gates = static_cast<const typename Gates::Element*>(args.gates) + row * args.gates_row;
  return Gates::Load(gates + gate * args.units + part.first, part.count);
}

template <typename Gates>
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
    Keep<Gates>(args, row, 0, part, i);
    Keep<Gates>(args, row, 1, part, f);
    Keep<Gates>(args, row, 2, part, g);
    Keep<Gates>(args, row, 3, part, o);
  });
}

// The gradient of a step's h: from the step after and from outside.
inline V Arriving(const RecurrentStepGradientArgs& args, int64_t row, Part part) {
  return part.Get(args.dh + row * args.units) + part.Get(Row(args.dy, row, args.dy_row));
}

template <typename Gates>
void LstmStepGradient(const RecurrentStepGradientArgs& args) {
  const int64_t units = args.units;
  ForParts(args.rows, args.units, [&](int64_t row, Part part) {
    const V i = Kept<Gates>(args, row, 0, part);
    const V f = Kept<Gates>(args, row, 1, part);
    const V g = Kept<Gates>(args, row, 2, part);
    const V o = Kept<Gates>(args, row, 3, part);
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

template <typename Gates>
struct LstmSteps {
  static void Run(const RecurrentStepArgs& args) { LstmStep<Gates>(args); }
  static void RunGradient(const RecurrentStepGradientArgs& args) { LstmStepGradient<Gates>(args); }
};

}  // namespace
}  // namespace trainyard::engine
