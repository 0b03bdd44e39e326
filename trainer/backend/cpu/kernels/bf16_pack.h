// Matrices as bfloat16 operands of products. Round makes bfloat16 of two vectors (bf16_pairs.h).
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/bf16_pairs.h"
#include "trainer/backend/cpu/kernels/row_values.h"
#include "trainer/backend/cpu/kernels/transpose.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kStep = 2 * kMostTilePairs;
constexpr float kOnes[2] = {1.0f, 1.0f};

inline void StoreElements(uint16_t* to, VU values, int elements) {
  if (elements >= kStep) {
    __builtin_memcpy(to, &values, sizeof values);
  } else {
    __builtin_memcpy(to, &values, static_cast<size_t>(elements) * sizeof *to);
  }
}

// kLanes vectors. They are converted and not read in place as floats: C++ lets no object of one
// type be read as the other, and gcc takes it at its word.
inline void TransposePairs(VU* block) {
  V rows[kLanes];
  for (int i = 0; i < kLanes; ++i) rows[i] = reinterpret_cast<V>(block[i]);
  Transpose(rows);
  for (int i = 0; i < kLanes; ++i) block[i] = reinterpret_cast<VU>(rows[i]);
}

template <typename Round>
void PackRowsLeft(const Bf16PackArgs& args) {
  for (int row = 0; row < args.width; ++row) {
    const float* from = args.from + row * args.from_row;
    uint16_t* to = args.to + row * args.to_row;
    int k = 0;
    for (; k + kStep <= args.k; k += kStep, from += 2 * args.from_chunk) {
      const VU values = Round::InOrder(LoadUnaligned(from), LoadUnaligned(from + args.from_chunk));
      __builtin_memcpy(to + k, &values, sizeof values);
    }
    if (k == args.k) continue;
    const int rest = args.k - k;
    const V second = rest > kLanes ? LoadPart(from + args.from_chunk, rest - kLanes) : V{};
    StoreElements(to + k, Round::InOrder(LoadPart(from, rest), second), rest);
  }
}

template <typename Round>
void PackColumnsLeft(const Bf16PackArgs& args) {
  // Rows of `from` are read once, whole.
  for (int k = 0; k < args.k; k += kStep) {
    const int count = MinInt(kStep, args.k - k);
    for (int column = 0; column < args.width; column += kLanes) {
      const int columns = MinInt(kLanes, args.width - column);
      VU block[kLanes] = {};
      for (int pair = 0; 2 * pair < count; ++pair) {
        const float* from = args.from + (k + 2 * pair) * args.from_row + column;
        const V odd = 2 * pair + 1 < count ? LoadPart(from + args.from_row, columns) : V{};
        block[pair] = Round::Pairs(LoadPart(from, columns), odd);
      }
      TransposePairs(block);
      for (int i = 0; i < columns; ++i) StoreElements(args.to + (column + i) * args.to_row + k, block[i], count);
    }
  }
}

// What becomes a right side: f32, which is rounded, or bfloat16.
template <typename Round>
struct WideSource {
  static const float* From(const Bf16PackArgs& args) { return args.from; }
  static V Load(const float* from, int count) { return LoadPart(from, count); }
  static VU Pairs(V low, V high) { return Round::Pairs(low, high); }
};
struct RoundedSource {
  static const uint16_t* From(const Bf16PackArgs& args) { return args.from_rounded; }
  static V Load(const uint16_t* from, int count) { return LoadRounded(from, count); }
  static VU Pairs(V low, V high) { return (reinterpret_cast<VU>(low) >> 16) | reinterpret_cast<VU>(high); }
};

// kGroups groups side by side: what they read of a row lies together.
template <typename Source, int kGroups>
void PackGroupsRight(const Bf16PackArgs& args, int group) {
  const auto width = [&](int j) { return MinInt(kLanes, args.width - (group + j) * kLanes); };
  float* const sums = args.sums == nullptr ? nullptr : args.sums + group * kLanes;
  V sum[kGroups];
  for (int j = 0; j < kGroups; ++j) sum[j] = sums == nullptr ? V{} : LoadUnaligned(sums + j * kLanes);
  const auto* from = Source::From(args) + group * kLanes;
  uint16_t* to = args.to + group * args.to_group;
  for (int k = 0; k < args.k; k += 2, from += 2 * args.from_row, to += kGroupPair) {
    const float* weights = args.sum_weights == nullptr ? kOnes : args.sum_weights + k;
    const float weight[2] = {weights[0], k + 1 < args.k ? weights[1] : 0.0f};
    for (int j = 0; j < kGroups; ++j) {
      const auto* place = from + j * kLanes;
      const V even = Source::Load(place, width(j));
      const V odd = k + 1 < args.k ? Source::Load(place + args.from_row, width(j)) : V{};
      const VU pair = Source::Pairs(even, odd);
      __builtin_memcpy(to + j * args.to_group, &pair, sizeof pair);
      sum[j] = (sum[j] + even * weight[0]) + odd * weight[1];
    }
  }
  for (int j = 0; j < kGroups && sums != nullptr; ++j) StoreUnaligned(sums + j * kLanes, sum[j]);
}

template <typename Source>
void PackColumnsRight(const Bf16PackArgs& args) {
  const int groups = (args.width + kLanes - 1) / kLanes;
  int group = 0;
  for (; group + 4 <= groups; group += 4) PackGroupsRight<Source, 4>(args, group);
  for (; group < groups; ++group) PackGroupsRight<Source, 1>(args, group);
}

template <typename Round>
void PackRowsRight(const Bf16PackArgs& args) {
  for (int k = 0; k < args.k; k += kStep) {
    const int count = MinInt(kStep, args.k - k);
    VU block[kLanes] = {};
    for (int lane = 0; lane < args.width; ++lane) {
      const float* from = args.from + lane * args.from_row + k / kLanes * args.from_chunk;
      const V first = LoadPart(from, count);
      const V second = count > kLanes ? LoadPart(from + args.from_chunk, count - kLanes) : V{};
      block[lane] = Round::InOrder(first, second);
      if (args.sums != nullptr) Store(args.sums + lane * kLanes, (Load(args.sums + lane * kLanes) + first) + second);
    }
    TransposePairs(block);
    __builtin_memcpy(args.to + k / 2 * kGroupPair, block, sizeof block);
  }
}

}  // namespace
}  // namespace trainyard::engine
