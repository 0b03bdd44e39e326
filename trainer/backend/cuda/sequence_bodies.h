// Bodies of loops over elements of sequences: rows of embeddings, and the gates of recurrent cells
// (ops/recurrent.h has their formulas).
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/backend/cuda/elementwise_bodies.h"

namespace trainyard::engine::cuda {

// y [count, width]: row ids[..] of the table.
struct GatherRows {
  const int32_t* ids;
  const float* table;
  float* y;
  int64_t width;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [place, column] = Divide(i, width);
    y[i] = table[ids[place] * width + column];
  }
};

// By place: next[place] is the next place with the same id, `count` where there is none;
// first[place] is 1 where no earlier place has it. So one row is added up by one thread a column,
// in order.
struct LinkPlaces {
  const int32_t* ids;
  int32_t* first;
  int32_t* next;
  int32_t count;

  TY_DEVICE void operator()(int64_t i) const {
    const auto place = static_cast<int32_t>(i);
    int32_t later = place + 1;
    while (later < count && ids[later] != ids[place]) ++later;
    next[place] = later;
    int32_t earlier = place - 1;
    while (earlier >= 0 && ids[earlier] != ids[place]) --earlier;
    first[place] = earlier < 0 ? 1 : 0;
  }
};

// By place and column: dtable's rows that ids name. All others are 0 already.
struct AddRows {
  const int32_t* ids;
  const int32_t* first;
  const int32_t* next;
  const float* dy;
  float* dtable;
  int64_t width;
  int32_t count;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [row, column] = Divide(i, width);
    const auto place = static_cast<int32_t>(row);
    if (first[place] == 0) return;
    float sum = 0.0f;
    for (int32_t at = place; at < count; at = next[at]) sum += dy[at * width + column];
    dtable[ids[place] * width + column] = sum;
  }
};

// Where a step of all samples lies: element i of [N, U] is unit i % units of sample i / units.
struct CellPlace {
  int64_t units, steps, step;

  TY_DEVICE int64_t Sample(int64_t i) const { return Quotient(i, units); }
  TY_DEVICE int64_t Unit(int64_t i) const { return Remainder(i, units); }
  // In a value [N, T, width], the place of the sample's row.
  TY_DEVICE int64_t Row(int64_t i, int64_t width) const { return (Sample(i) * steps + step) * width; }
};

TY_DEVICE inline float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// One step of a simple RNN. q [N, U] is the recurrent product; h [N, U] becomes the new one.
struct RnnStep {
  CellPlace at;
  const float* z;
  const float* q;
  float* h;
  float* y;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t row = at.Row(i, at.units) + at.Unit(i);
    h[i] = y[row] = Activate(activation, z[row] + q[i]);
  }
};

// q [N, 4U]; c [N, U] becomes the new one. gates [N, T, 4U] and cells [N, T, U] may be null.
struct LstmStep {
  CellPlace at;
  const float* z;
  const float* q;
  float* h;
  float* c;
  float* y;
  float* gates;
  float* cells;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t u = at.Unit(i);
    const int64_t wide = at.Row(i, 4 * at.units);
    const float* const mine = q + at.Sample(i) * 4 * at.units;
    const auto p = [&](int gate) { return z[wide + gate * at.units + u] + mine[gate * at.units + u]; };
    const float in = Sigmoid(p(0));
    const float forget = Sigmoid(p(1));
    const float candidate = std::tanh(p(2));
    const float out = Sigmoid(p(3));
    const float cell = forget * c[i] + in * candidate;
    c[i] = cell;
    h[i] = y[at.Row(i, at.units) + u] = out * std::tanh(cell);
    if (cells != nullptr) cells[at.Row(i, at.units) + u] = cell;
    if (gates == nullptr) return;
    float* const kept = gates + wide + u;
    kept[0] = in;
    kept[at.units] = forget;
    kept[2 * at.units] = candidate;
    kept[3 * at.units] = out;
  }
};

// q [N, 3U]; bias [2, 3U] and gates [N, T, 4U] may be null.
struct GruStep {
  CellPlace at;
  const float* z;
  const float* q;
  const float* bias;
  float* h;
  float* y;
  float* gates;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t u = at.Unit(i);
    const int64_t width = 3 * at.units;
    const float* const outer = z + at.Row(i, width);
    const float* const inner = q + at.Sample(i) * width;
    const auto outside = [&](int gate) { return outer[gate * at.units + u] + (bias == nullptr ? 0.0f : bias[gate * at.units + u]); };
    const auto inside = [&](int gate) { return inner[gate * at.units + u] + (bias == nullptr ? 0.0f : bias[width + gate * at.units + u]); };
    const float update = Sigmoid(outside(0) + inside(0));
    const float reset = Sigmoid(outside(1) + inside(1));
    const float candidate = std::tanh(outside(2) + reset * inside(2));
    h[i] = y[at.Row(i, at.units) + u] = update * h[i] + (1.0f - update) * candidate;
    if (gates == nullptr) return;
    float* const kept = gates + at.Row(i, 4 * at.units) + u;
    kept[0] = update;
    kept[at.units] = reset;
    kept[2 * at.units] = candidate;
    kept[3 * at.units] = inside(2);
  }
};

// Backward, one step. dh [N, U] holds what comes from the step after, and becomes what goes to the
// step before but for the product with dq (LSTM, RNN: nothing, so the product is stored; GRU: a
// part, so it is added). dy [N, T, U] may be null. dq may be dz where they are one.
struct RnnStepBack {
  CellPlace at;
  const float* dy;
  const float* y;
  const float* dh;
  float* dz;
  Activation activation;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t row = at.Row(i, at.units) + at.Unit(i);
    const float d = dh[i] + (dy == nullptr ? 0.0f : dy[row]);
    dz[row] = d * ActivationSlope(activation, y[row]);
  }
};

// cells_before [N, T, U]: c of the step before (ShiftStates).
struct LstmStepBack {
  CellPlace at;
  const float* dy;
  const float* gates;
  const float* cells;
  const float* cells_before;
  const float* dh;
  float* dc;
  float* dz;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t u = at.Unit(i);
    const int64_t row = at.Row(i, at.units) + u;
    const int64_t wide = at.Row(i, 4 * at.units) + u;
    const float in = gates[wide];
    const float forget = gates[wide + at.units];
    const float candidate = gates[wide + 2 * at.units];
    const float out = gates[wide + 3 * at.units];
    const float d = dh[i] + (dy == nullptr ? 0.0f : dy[row]);
    const float active = std::tanh(cells[row]);
    const float cell = dc[i] + d * out * (1.0f - active * active);
    dz[wide] = cell * candidate * in * (1.0f - in);
    dz[wide + at.units] = cell * cells_before[row] * forget * (1.0f - forget);
    dz[wide + 2 * at.units] = cell * in * (1.0f - candidate * candidate);
    dz[wide + 3 * at.units] = d * active * out * (1.0f - out);
    dc[i] = cell * forget;
  }
};

struct GruStepBack {
  CellPlace at;
  const float* dy;
  const float* gates;
  const float* h_before;
  float* dh;
  float* dz;
  float* dq;

  TY_DEVICE void operator()(int64_t i) const {
    const int64_t u = at.Unit(i);
    const int64_t row = at.Row(i, at.units) + u;
    const int64_t four = at.Row(i, 4 * at.units) + u;
    const int64_t three = at.Row(i, 3 * at.units) + u;
    const float update = gates[four];
    const float reset = gates[four + at.units];
    const float candidate = gates[four + 2 * at.units];
    const float inside = gates[four + 3 * at.units];
    const float d = dh[i] + (dy == nullptr ? 0.0f : dy[row]);
    const float dcandidate = d * (1.0f - update) * (1.0f - candidate * candidate);
    const float dreset = dcandidate * inside * reset * (1.0f - reset);
    const float dupdate = d * (h_before[row] - candidate) * update * (1.0f - update);
    dz[three] = dq[three] = dupdate;
    dz[three + at.units] = dq[three + at.units] = dreset;
    dz[three + 2 * at.units] = dcandidate;
    dq[three + 2 * at.units] = dcandidate * reset;
    dh[i] = d * update;
  }
};

// values [N, T, U] → the values of the step before at each step; at the first those of `initial`
// [N, U], zeros where that is null.
struct ShiftStates {
  const float* values;
  const float* initial;
  float* before;
  int64_t units, steps;
  bool reverse;

  TY_DEVICE void operator()(int64_t i) const {
    const auto [row, u] = Divide(i, units);
    const auto [sample, step] = Divide(row, steps);
    const bool first = step == (reverse ? steps - 1 : 0);
    if (!first) {
      before[i] = values[i + (reverse ? units : -units)];
    } else {
      before[i] = initial == nullptr ? 0.0f : initial[sample * units + u];
    }
  }
};

}  // namespace trainyard::engine::cuda
