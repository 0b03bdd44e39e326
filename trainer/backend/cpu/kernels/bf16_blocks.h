// A product of bfloat16 operands over blocks of rows x groups whose sums lie in registers. Dot adds
// a pair of one row times a vector of pairs.
#pragma once

#include <array>
#include <utility>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/bf16_pairs.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

struct Bf16Place {
  int row, group;
};

// Of the group `at.group + j`: how many lanes belong to c.
inline int LanesOf(const Bf16ProductArgs& args, Bf16Place at, int j) { return at.group + j + 1 == args.groups ? args.last_lanes : kLanes; }

// A block's sums as they are.
struct LeaveSums {
  static constexpr int kRowStep = 1;
  template <int kRows, int kGroups>
  __attribute__((always_inline)) static void Leave(const Bf16ProductArgs& args, Bf16Place at, const V (&sum)[kRows][kGroups]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kGroups; ++j) {
        float* c = args.c + (at.row + r) * args.c_row + (at.group + j) * args.c_group;
        StorePart(c, sum[r][j], LanesOf(args, at, j));
      }
    }
  }
};

// A block's sums with what is added to them, activated and rounded: rows are channels in pairs.
template <typename Round>
struct LeavePairs {
  static constexpr int kRowStep = 2;
  template <int kRows, int kGroups>
  __attribute__((always_inline)) static void Leave(const Bf16ProductArgs& args, Bf16Place at, const V (&sum)[kRows][kGroups]) {
    if (args.add == nullptr) {
      args.relu ? Store<false, true>(args, at, sum) : Store<false, false>(args, at, sum);
    } else {
      args.relu ? Store<true, true>(args, at, sum) : Store<true, false>(args, at, sum);
    }
  }

 private:
  // What is stored is fetched so many groups before: they lie too far apart for hardware to do it.
  static constexpr int kGroupsAhead = 8;

  template <bool kAdd, bool kRelu, int kRows, int kGroups>
  __attribute__((always_inline)) static void Store(const Bf16ProductArgs& args, Bf16Place at, const V (&sum)[kRows][kGroups]) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; r += 2) {
#pragma GCC unroll 4
      for (int j = 0; j < kGroups; ++j) {
        const int64_t place = (at.row + r) * int64_t{kLanes} + (at.group + j) * args.c_group;
        const int64_t ahead = place + kGroupsAhead * args.c_group;
        if constexpr (kAdd) PrefetchRead(args.add + ahead);
        PrefetchWrite(args.pairs_to + ahead);
        V values[2] = {sum[r][j], sum[r + 1][j]};
        V added[2] = {};
        if constexpr (kAdd) PairPanels<Round>::Load(args.add + place, added);
        for (int i = 0; i < 2; ++i) {
          if constexpr (kAdd) values[i] = values[i] + added[i];
          if constexpr (kRelu) values[i] = ActivationKernel<Activation::kRelu>::Forward(values[i]);
        }
        PairPanels<Round>::Store(args.pairs_to + place, values);
      }
    }
  }
};

// Loops over a block are unrolled: only then the sums stay in registers.
template <typename Dot, typename End, int kRows, int kGroups>
void RunPairs(const Bf16ProductArgs& args, Bf16Place at) {
  V sum[kRows][kGroups];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kGroups; ++j) {
      if (args.start == nullptr) {
        sum[r][j] = V{};
        continue;
      }
      const float* start = args.start + (at.row + r) * args.start_row + (at.group + j) * args.start_group;
      sum[r][j] = LoadPart(start, LanesOf(args, at, j));
    }
  }
  const uint16_t* a_first = args.a + at.row * args.a_row;
  const uint16_t* b_first = args.b + at.group * args.b_group;
  const int64_t a_row = args.a_row;
  const int64_t b_group = args.b_group;
  const int pairs = args.pairs;
  for (int outer = 0; outer < args.outer; ++outer) {
    for (int inner = 0; inner < args.inner; ++inner) {
      const uint16_t* a = a_first + outer * args.a_outer + inner * args.a_inner;
      const uint16_t* b = b_first + outer * args.b_outer + inner * args.b_inner;
      for (int pair = 0; pair < pairs; ++pair, a += 2, b += kGroupPair) {
        VU right[kGroups];
#pragma GCC unroll 4
        for (int j = 0; j < kGroups; ++j) __builtin_memcpy(&right[j], b + j * b_group, sizeof right[j]);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          uint32_t left;
          __builtin_memcpy(&left, a + r * a_row, sizeof left);
#pragma GCC unroll 4
          for (int j = 0; j < kGroups; ++j) sum[r][j] = Dot::Add(sum[r][j], left, right[j]);
        }
      }
    }
  }
  End::Leave(args, at, sum);
}

// Of a block whose operands and sums fill the registers.
constexpr int kMostBlockRows = kVectors >= 32 ? 12 : kVectors >= 8 ? 2 : 1;
constexpr int kMostBlockGroups = kVectors >= 8 ? 2 : 1;

template <typename Dot, typename End, int kRows>
void RunRows(const Bf16ProductArgs& args, int row) {
  int group = 0;
  for (; group + kMostBlockGroups <= args.groups; group += kMostBlockGroups)
    RunPairs<Dot, End, kRows, kMostBlockGroups>(args, {row, group});
  for (; group < args.groups; ++group) RunPairs<Dot, End, kRows, 1>(args, {row, group});
}

template <typename Dot, typename End, int... kIndices>
constexpr auto MakeRowBlocks(std::integer_sequence<int, kIndices...> /*indices*/) {
  return std::array<void (*)(const Bf16ProductArgs&, int), sizeof...(kIndices)>{RunRows<Dot, End, (kIndices + 1) * End::kRowStep>...};
}

// Rows in as few blocks as there can be, as even as they go.
template <typename Dot, typename End = LeaveSums>
void RunProduct(const Bf16ProductArgs& args) {
  constexpr int kRowStep = End::kRowStep;
  constexpr int kMost = kMostBlockRows / kRowStep;
  static constexpr auto kBlocks = MakeRowBlocks<Dot, End>(std::make_integer_sequence<int, kMost>());
  for (int row = 0; row < args.rows;) {
    const int left = (args.rows - row) / kRowStep;
    const int blocks = (left + kMost - 1) / kMost;
    const int steps = (left + blocks - 1) / blocks;
    kBlocks[static_cast<size_t>(steps - 1)](args, row);
    row += steps * kRowStep;
  }
}

}  // namespace
}  // namespace trainyard::engine
