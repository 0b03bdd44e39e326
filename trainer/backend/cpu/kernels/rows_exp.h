// Cross-entropy of logits that come panel by panel: e^x without the highest logit taken off, which
// is known at the row's end only. e^x is as exact as e^(x - highest) while it stays a normal
// number. A row's sum of e^x tells whether it did. Rows (row_values.h) is how e^x is stored.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/math.h"
#include "trainer/backend/cpu/kernels/row_values.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr float kLowestLogit = -3.402823466e+38f;
// Of a row's sum. The highest logit lies between ln(sum / classes) and ln(sum): for a million
// classes between -44 and 51.
constexpr double kLeastSum = 1e-13;
constexpr double kMostSum = 1e22;

template <typename Rows, bool kStored>
V ExpOf(const float* x, typename Rows::Element* y, int columns) {
  V sum[2] = {};
  int c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    V e[2];
    for (int j = 0; j < 2; ++j) {
      e[j] = Exp(Load(x + c + j * kLanes));
      sum[j] += e[j];
    }
    if constexpr (kStored) Rows::StoreTwo(y + c, e[0], e[1]);
  }
  for (; c + kLanes <= columns; c += kLanes) {
    const V e = Exp(Load(x + c));
    sum[0] += e;
    if constexpr (kStored) Rows::Store(y + c, e, kLanes);
  }
  if (c < columns) {
    const int count = columns - c;
    const V e = Exp(LoadPart(x + c, count));
    V counted = {};
    for (int l = 0; l < count; ++l) counted[l] = e[l];
    sum[1] += counted;
    if constexpr (kStored) Rows::Store(y + c, e, count);
  }
  return sum[0] + sum[1];
}

template <typename Rows, bool kStored>
void SumRowsOfExp(const ExpRowsArgs& args) {
  auto* const y = static_cast<typename Rows::Element*>(args.y);
  for (int row = 0; row < args.rows; row += kLanes) {
    const int count = MinInt(kLanes, args.rows - row);
    V sums[kLanes] = {};
    for (int i = 0; i < count; ++i) {
      sums[i] = ExpOf<Rows, kStored>(args.x + (row + i) * args.x_row, kStored ? y + (row + i) * args.y_row : nullptr, args.columns);
    }
    StorePart(args.sums + row, SumLanes(sums), count);
  }
}

inline float HighestLogit(const float* x, int begin, int end, float highest) {
  int c = begin;
  if (end - begin >= kLanes) {
    V best = LoadUnaligned(x + c);
    for (c += kLanes; c + kLanes <= end; c += kLanes) best = Max(LoadUnaligned(x + c), best);
    for (int l = 0; l < kLanes; ++l) highest = best[l] > highest ? best[l] : highest;
  }
  for (; c < end; ++c) highest = x[c] > highest ? x[c] : highest;
  return highest;
}

template <typename Rows>
struct ExpRowsOf {
  static void Run(const ExpRowsArgs& args) {
    (args.y != nullptr ? SumRowsOfExp<Rows, true> : SumRowsOfExp<Rows, false>)(args);
    for (int row = 0; row < args.rows; ++row) {
      const float* x = args.x + row * args.x_row;
      const int label = args.labels[row] - args.first;
      const bool mine = label >= 0 && label < args.columns;
      if (mine) args.wanted[row] = x[label];
      if (args.highest == nullptr) continue;
      args.highest[row] = HighestLogit(x, 0, args.columns, kLowestLogit);
      if (mine) args.leads[row] = x[label] >= args.highest[row] && !(HighestLogit(x, 0, label, kLowestLogit) >= x[label]) ? 1 : 0;
    }
  }

  static void End(const ExpRowsEndArgs& args) {
    for (int64_t row = args.begin; row < args.end; row += kLanes) {
      const int count = args.end - row < kLanes ? static_cast<int>(args.end - row) : kLanes;
      double sums[kLanes] = {};
      for (int panel = 0; panel < args.panels; ++panel) {
        const float* from = args.sums + panel * args.sums_row + row;
        for (int i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(from[i]);
      }
      const V wanted = Exp(LoadPart(args.wanted + row, count));
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
        auto* const label = static_cast<typename Rows::Element*>(args.y) + (row + i) * args.y_row + args.labels[row + i];
        Rows::Store(label, Splat(static_cast<float>(static_cast<double>(wanted[i]) - sums[i])), 1);
      }
    }
  }
};

}  // namespace
}  // namespace trainyard::engine
