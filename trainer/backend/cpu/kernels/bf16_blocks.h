// A product of bfloat16 operands over blocks of rows x groups whose sums lie in registers. Dot adds
// a pair of one row times a vector of pairs.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/bf16_pairs.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

struct Bf16Place {
  int row, group;
};

template <typename Dot, int kRows, int kGroups>
void RunPairs(const Bf16ProductArgs& args, Bf16Place at) {
  V sum[kRows][kGroups];
  const auto lanes = [&](int j) { return at.group + j + 1 == args.groups ? args.last_lanes : kLanes; };
  for (int r = 0; r < kRows; ++r) {
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
  for (int outer = 0; outer < args.outer; ++outer) {
    for (int inner = 0; inner < args.inner; ++inner) {
      const uint16_t* a = a_first + outer * args.a_outer + inner * args.a_inner;
      const uint16_t* b = b_first + outer * args.b_outer + inner * args.b_inner;
      for (int pair = 0; pair < args.pairs; ++pair, a += 2, b += kGroupPair) {
        VU right[kGroups];
        for (int j = 0; j < kGroups; ++j) __builtin_memcpy(&right[j], b + j * args.b_group, sizeof right[j]);
        for (int r = 0; r < kRows; ++r) {
          uint32_t left;
          __builtin_memcpy(&left, a + r * args.a_row, sizeof left);
          for (int j = 0; j < kGroups; ++j) sum[r][j] = Dot::Add(sum[r][j], left, right[j]);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
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

template <typename Dot, int kRows>
void RunRows(const Bf16ProductArgs& args, int row) {
  constexpr int kGroups = kVectors >= 8 ? 2 : 1;
  int group = 0;
  for (; group + kGroups <= args.groups; group += kGroups) RunPairs<Dot, kRows, kGroups>(args, {row, group});
  for (; group < args.groups; ++group) RunPairs<Dot, kRows, 1>(args, {row, group});
}

template <typename Dot>
void RunProduct(const Bf16ProductArgs& args) {
  constexpr int kMost = kVectors >= 32 ? 10 : kVectors >= 8 ? 2 : 1;
  constexpr int kHalf = kVectors >= 32 ? 4 : 1;
  int row = 0;
  for (; row + kMost <= args.rows; row += kMost) RunRows<Dot, kMost>(args, row);
  for (; row + kHalf <= args.rows; row += kHalf) RunRows<Dot, kHalf>(args, row);
  for (; row < args.rows; ++row) RunRows<Dot, 1>(args, row);
}

}  // namespace
}  // namespace trainyard::engine
