// Cross-entropy of logits that come panel by panel: e^x without the highest logit taken off, which
// is known at the row's end only. e^x is as exact as e^(x - highest) while it stays a normal
// number. A row's sum of e^x tells whether it did.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr float kLowest = -3.402823466e+38f;
// Of a row's sum. The highest logit lies between ln(sum / classes) and ln(sum): for a million
// classes between -44 and 51.
constexpr double kLeastSum = 1e-13;
constexpr double kMostSum = 1e22;

template <bool kStored>
V ExpOf(const float* x, float* y, int columns) {
  V sum[2] = {};
  int c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    for (int j = 0; j < 2; ++j) {
      const V e = Exp(Load(x + c + j * kLanes));
      sum[j] += e;
      if constexpr (kStored) StoreUnaligned(y + c + j * kLanes, e);
    }
  }
  for (; c + kLanes <= columns; c += kLanes) {
    const V e = Exp(Load(x + c));
    sum[0] += e;
    if constexpr (kStored) StoreUnaligned(y + c, e);
  }
  if (c < columns) {
    const int count = columns - c;
    const V e = Exp(LoadPart(x + c, count));
    V counted = {};
    for (int l = 0; l < count; ++l) counted[l] = e[l];
    sum[1] += counted;
    if constexpr (kStored) StorePart(y + c, e, count);
  }
  return sum[0] + sum[1];
}

template <bool kStored>
void SumRows(const ExpRowsArgs& args) {
  for (int row = 0; row < args.rows; row += kLanes) {
    const int count = MinInt(kLanes, args.rows - row);
    V sums[kLanes] = {};
    for (int i = 0; i < count; ++i) {
      sums[i] = ExpOf<kStored>(args.x + (row + i) * args.x_row, kStored ? args.y + (row + i) * args.y_row : nullptr, args.columns);
    }
    StorePart(args.sums + row, SumLanes(sums), count);
  }
}

float HighestOf(const float* x, int begin, int end, float highest) {
  int c = begin;
  if (end - begin >= kLanes) {
    V best = LoadUnaligned(x + c);
    for (c += kLanes; c + kLanes <= end; c += kLanes) best = Max(LoadUnaligned(x + c), best);
    for (int l = 0; l < kLanes; ++l) highest = best[l] > highest ? best[l] : highest;
  }
  for (; c < end; ++c) highest = x[c] > highest ? x[c] : highest;
  return highest;
}

}  // namespace

namespace TRAINYARD_ISA {

void ExpRows(const ExpRowsArgs& args) {
  (args.y != nullptr ? SumRows<true> : SumRows<false>)(args);
  for (int row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_row;
    const int label = args.labels[row] - args.first;
    const bool mine = label >= 0 && label < args.columns;
    if (mine) args.wanted[row] = x[label];
    if (args.highest == nullptr) continue;
    args.highest[row] = HighestOf(x, 0, args.columns, kLowest);
    if (mine) args.leads[row] = x[label] >= args.highest[row] && !(HighestOf(x, 0, label, kLowest) >= x[label]) ? 1 : 0;
  }
}

void ExpRowsEnd(const ExpRowsEndArgs& args) {
  for (int64_t row = args.begin; row < args.end; row += kLanes) {
    const int count = args.end - row < kLanes ? static_cast<int>(args.end - row) : kLanes;
    double sums[kLanes] = {};
    for (int panel = 0; panel < args.panels; ++panel) {
      const float* from = args.sums + panel * args.sums_row + row;
      for (int i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(from[i]);
    }
    for (int i = 0; i < count; ++i) {
      const bool within = sums[i] >= kLeastSum && sums[i] <= kMostSum;
      args.beyond[row + i] = within ? 0 : 1;
      if (!within) continue;
      // ln(sum) as a float and what it is short of.
      const float sum = static_cast<float>(sums[i]);
      const float log = Log(Splat(sum))[0];
      const float rest = Log(Splat(sum) * Exp(Splat(-log)))[0];
      args.losses[row + i] = (static_cast<double>(log) - static_cast<double>(args.wanted[row + i])) + static_cast<double>(rest);
      if (args.factors != nullptr) args.factors[row + i] = static_cast<float>(1.0 / (sums[i] * args.count));
      if (args.y == nullptr) continue;
      float& label = args.y[(row + i) * args.y_row + args.labels[row + i]];
      label = static_cast<float>(static_cast<double>(label) - sums[i]);
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
