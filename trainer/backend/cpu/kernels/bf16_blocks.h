// A product of bfloat16 operands over blocks of rows x groups whose sums lie in registers. Dot adds
// a pair of one row times a vector of pairs.
#pragma once

#include <array>
#include <utility>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/bf16_pairs.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

struct Bf16Place {
  int row, group;
};

// Loops over a block are unrolled: only then the sums stay in registers.
template <typename Dot, int kRows, int kGroups>
void RunPairs(const Bf16ProductArgs& args, Bf16Place at) {
  V sum[kRows][kGroups];
  const auto lanes = [&](int j) { return at.group + j + 1 == args.groups ? args.last_lanes : kLanes; };
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kGroups; ++j) {
      if (args.start == nullptr) {
        sum[r][j] = V{};
        continue;
      }
      const float* start = args.start + (at.row + r) * args.start_row + (at.group + j) * args.start_group;
      sum[r][j] = lanes(j) == kLanes ? LoadUnaligned(start) : LoadPart(start, lanes(j));
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
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < kGroups; ++j) {
      float* c = args.c + (at.row + r) * args.c_row + (at.group + j) * args.c_group;
      if (lanes(j) == kLanes) {
        StoreUnaligned(c, sum[r][j]);
      } else {
        StorePart(c, sum[r][j], lanes(j));
      }
    }
  }
}

// Of a block whose operands and sums fill the registers.
constexpr int kMostBlockRows = kVectors >= 32 ? 12 : kVectors >= 8 ? 2 : 1;
constexpr int kMostBlockGroups = kVectors >= 8 ? 2 : 1;

template <typename Dot, int kRows>
void RunRows(const Bf16ProductArgs& args, int row) {
  int group = 0;
  for (; group + kMostBlockGroups <= args.groups; group += kMostBlockGroups) RunPairs<Dot, kRows, kMostBlockGroups>(args, {row, group});
  for (; group < args.groups; ++group) RunPairs<Dot, kRows, 1>(args, {row, group});
}

template <typename Dot, int... kIndices>
constexpr auto MakeRowBlocks(std::integer_sequence<int, kIndices...> /*indices*/) {
  return std::array<void (*)(const Bf16ProductArgs&, int), sizeof...(kIndices)>{RunRows<Dot, kIndices + 1>...};
}

// Rows in as few blocks as there can be, as even as they go.
template <typename Dot>
void RunProduct(const Bf16ProductArgs& args) {
  static constexpr auto kBlocks = MakeRowBlocks<Dot>(std::make_integer_sequence<int, kMostBlockRows>());
  for (int row = 0; row < args.rows;) {
    const int left = args.rows - row;
    const int blocks = (left + kMostBlockRows - 1) / kMostBlockRows;
    const int rows = (left + blocks - 1) / blocks;
    kBlocks[static_cast<size_t>(rows - 1)](args, row);
    row += rows;
  }
}

}  // namespace
}  // namespace trainyard::engine
