// Recurrent layers, one sample and one step at a time, straight from the formulas of
// ops/recurrent.h.
#include "trainer/ops/recurrent.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "trainer/backend/reference/rounded_operands.h"

namespace trainyard::engine::reference {
namespace {

struct RecurrentSizes {
  int64_t samples, steps, units, gates;
  bool reverse;

  RecurrentSizes(const RecurrentOp& op, const Shape& y)
      : samples(y[0]), steps(y[1]), units(y[2]), gates(GateCount(op.cell)), reverse(op.reverse) {}
  // The place of step `count` in the order of running, of sample n.
  int64_t Row(int64_t n, int64_t count) const { return n * steps + (reverse ? steps - 1 - count : count); }
};

template <typename T>
T Sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

// p[j] = sum over u of h[u] * kernel[u, j]
template <typename T>
void Multiply(const T* h, const T* kernel, int64_t units, int64_t width, Precision precision, T* p) {
  std::fill_n(p, width, T{0});
  for (int64_t u = 0; u < units; ++u) {
    const T left = Operand(h[u], precision);
    for (int64_t j = 0; j < width; ++j) p[j] += left * Operand(kernel[u * width + j], precision);
  }
}

// dh[u] += sum over j of dp[j] * kernel[u, j]; dkernel[u, j] += h[u] * dp[j], unless it is null
template <typename T>
void MultiplyBack(const T* h, const T* kernel, const T* dp, int64_t units, int64_t width, Precision precision, T* dh, T* dkernel) {
  for (int64_t u = 0; u < units; ++u) {
    const T left = Operand(h[u], precision);
    for (int64_t j = 0; j < width; ++j) {
      const T right = Operand(dp[j], precision);
      dh[u] += right * Operand(kernel[u * width + j], precision);
      if (dkernel != nullptr) dkernel[u * width + j] += left * right;
    }
  }
}

}  // namespace

template <typename T>
RunFunction MakeRun(const RecurrentOp& op, const NodeView& node, Precision precision) {
  const RecurrentSizes n(op, node.out().shape);
  // Product, h and c of one sample; the function must not allocate.
  auto memory = std::make_shared<std::vector<T>>(static_cast<size_t>((n.gates + 2) * n.units));
  return [op, n, precision, memory, at = RecurrentInputs(op)](const KernelContext& context) {
    const int64_t width = n.gates * n.units;
    T* const q = memory->data();
    T* const h = q + width;
    T* const c = h + n.units;
    const T* bias = op.bias ? context.input<T>(at.bias) : nullptr;
    const bool has_gates = op.cell != Cell::kSimpleRnn && context.output<T>(RecurrentOutputs::kGates) != nullptr;
    const auto store = [&](int64_t row, int64_t u, std::array<T, 4> values) {
      if (!has_gates) return;
      T* gates = context.output<T>(RecurrentOutputs::kGates) + row * 4 * n.units;
      for (int g = 0; g < 4; ++g) gates[g * n.units + u] = values[g];
    };
    for (int64_t sample = 0; sample < n.samples; ++sample) {
      std::fill_n(h, 2 * n.units, T{0});
      if (at.h >= 0) std::copy_n(context.input<T>(at.h) + sample * n.units, n.units, h);
      if (at.c >= 0) std::copy_n(context.input<T>(at.c) + sample * n.units, n.units, c);
      for (int64_t step = 0; step < n.steps; ++step) {
        const int64_t row = n.Row(sample, step);
        const T* z = context.input<T>(at.z) + row * width;
        Multiply(h, context.input<T>(at.kernel), n.units, width, precision, q);
        for (int64_t u = 0; u < n.units; ++u) {
          const auto place = [&](int gate) { return gate * n.units + u; };
          if (op.cell == Cell::kSimpleRnn) {
            h[u] = Activate(op.activation, z[u] + q[u]);
          } else if (op.cell == Cell::kLstm) {
            const auto p = [&](int gate) { return z[place(gate)] + q[place(gate)]; };
            const T i = Sigmoid(p(0));
            const T f = Sigmoid(p(1));
            const T g = std::tanh(p(2));
            const T o = Sigmoid(p(3));
            c[u] = f * c[u] + i * g;
            h[u] = o * std::tanh(c[u]);
            store(row, u, {i, f, g, o});
            if (T* cells = context.output<T>(RecurrentOutputs::kCells)) cells[row * n.units + u] = c[u];
          } else {
            const auto outside = [&](int gate) { return z[place(gate)] + (bias == nullptr ? T{0} : bias[place(gate)]); };
            const auto inside = [&](int gate) { return q[place(gate)] + (bias == nullptr ? T{0} : bias[width + place(gate)]); };
            const T update = Sigmoid(outside(0) + inside(0));
            const T reset = Sigmoid(outside(1) + inside(1));
            const T candidate = std::tanh(outside(2) + reset * inside(2));
            store(row, u, {update, reset, candidate, inside(2)});
            h[u] = update * h[u] + (T{1} - update) * candidate;
          }
        }
        std::copy_n(h, n.units, context.output<T>(RecurrentOutputs::kSequence) + row * n.units);
      }
      if (T* last = context.output<T>(RecurrentOutputs::kLast)) std::copy_n(h, n.units, last + sample * n.units);
      if (op.cell != Cell::kLstm) continue;
      if (T* last = context.output<T>(RecurrentOutputs::kLastCell)) std::copy_n(c, n.units, last + sample * n.units);
    }
  };
}

template <typename T>
RunFunction MakeRun(const RecurrentGradientOp& op, const NodeView& node, Precision precision) {
  const RecurrentGradientInputs at(op);
  const RecurrentSizes n(op.forward, node.in(at.y).shape);
  const int64_t width = n.gates * n.units;
  // The gradients of h (of this step and of the one before), of c and of the recurrent product, and
  // zeros.
  auto memory = std::make_shared<std::vector<T>>(static_cast<size_t>(width + 4 * n.units));
  return [op, n, width, precision, memory, at](const KernelContext& context) {
    T* const dq = memory->data();
    T* dh = dq + width;
    T* dh_before = dh + n.units;
    T* const dc = dh_before + n.units;
    T* const zeros = dc + n.units;
    T* const dkernel = context.output<T>(1);
    if (dkernel != nullptr) std::fill_n(dkernel, n.units * width, T{0});
    T* const dbias = op.forward.bias ? context.output<T>(2) : nullptr;
    if (dbias != nullptr) std::fill_n(dbias, 2 * width, T{0});
    const T* const y = context.input<T>(at.y);
    for (int64_t sample = 0; sample < n.samples; ++sample) {
      std::fill_n(dh, n.units, T{0});
      std::fill_n(dc, n.units, T{0});
      if (op.last) std::copy_n(context.input<T>(at.dlast) + sample * n.units, n.units, dh);
      for (int64_t step = n.steps - 1; step >= 0; --step) {
        const int64_t row = n.Row(sample, step);
        const T* h_before = zeros;
        const T* c_before = zeros;
        if (step > 0) {
          h_before = y + n.Row(sample, step - 1) * n.units;
          if (at.cells >= 0) c_before = context.input<T>(at.cells) + n.Row(sample, step - 1) * n.units;
        } else if (op.forward.initial) {
          h_before = context.input<T>(at.h) + sample * n.units;
          if (at.c >= 0) c_before = context.input<T>(at.c) + sample * n.units;
        }
        T* const dz = context.output<T>(0) + row * width;
        const T* const gates = at.gates < 0 ? nullptr : context.input<T>(at.gates) + row * 4 * n.units;
        for (int64_t u = 0; u < n.units; ++u) {
          const T d = dh[u] + (op.sequence ? context.input<T>(at.dy)[row * n.units + u] : T{0});
          dh_before[u] = T{0};
          const auto place = [&](int gate) { return gate * n.units + u; };
          if (op.forward.cell == Cell::kSimpleRnn) {
            dq[u] = dz[u] = d * ActivationSlope(op.forward.activation, y[row * n.units + u]);
          } else if (op.forward.cell == Cell::kLstm) {
            const T i = gates[place(0)];
            const T f = gates[place(1)];
            const T g = gates[place(2)];
            const T o = gates[place(3)];
            const T active = std::tanh(context.input<T>(at.cells)[row * n.units + u]);
            const T cell = dc[u] + d * o * (T{1} - active * active);
            dz[place(0)] = cell * g * i * (T{1} - i);
            dz[place(1)] = cell * c_before[u] * f * (T{1} - f);
            dz[place(2)] = cell * i * (T{1} - g * g);
            dz[place(3)] = d * active * o * (T{1} - o);
            dc[u] = cell * f;
            for (int gate = 0; gate < 4; ++gate) dq[place(gate)] = dz[place(gate)];
          } else {
            const T update = gates[place(0)];
            const T reset = gates[place(1)];
            const T candidate = gates[place(2)];
            const T inside = gates[place(3)];
            dh_before[u] = d * update;
            dz[place(2)] = d * (T{1} - update) * (T{1} - candidate * candidate);
            dz[place(1)] = dz[place(2)] * inside * reset * (T{1} - reset);
            dz[place(0)] = d * (h_before[u] - candidate) * update * (T{1} - update);
            dq[place(0)] = dz[place(0)];
            dq[place(1)] = dz[place(1)];
            dq[place(2)] = dz[place(2)] * reset;
          }
        }
        for (int64_t j = 0; dbias != nullptr && j < width; ++j) {
          dbias[j] += dz[j];
          dbias[width + j] += dq[j];
        }
        MultiplyBack(h_before, context.input<T>(at.kernel), dq, n.units, width, precision, dh_before, dkernel);
        std::swap(dh, dh_before);
      }
    }
  };
}

template RunFunction MakeRun<float>(const RecurrentOp&, const NodeView&, Precision);
template RunFunction MakeRun<double>(const RecurrentOp&, const NodeView&, Precision);
template RunFunction MakeRun<float>(const RecurrentGradientOp&, const NodeView&, Precision);
template RunFunction MakeRun<double>(const RecurrentGradientOp&, const NodeView&, Precision);

}  // namespace trainyard::engine::reference
