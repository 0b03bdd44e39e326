// Matrices of f32 as bfloat16 operands of products.
#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/bf16_round.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/transpose.h"

namespace trainyard::engine {
namespace {

constexpr int kStep = 2 * kMostTilePairs;

inline V LoadUpTo(const float* p, int count) { return count >= kLanes ? LoadUnaligned(p) : LoadPart(p, count); }

inline void StoreElements(uint16_t* to, VU values, int elements) {
  __builtin_memcpy(to, &values, elements >= kStep ? sizeof values : static_cast<size_t>(elements) * sizeof *to);
}

inline void TransposePairs(VU* block) { Transpose(reinterpret_cast<V*>(block)); }

}  // namespace

namespace TRAINYARD_ISA {

void PackLeftRows(const Bf16PackArgs& args) {
  for (int row = 0; row < args.width; ++row) {
    const float* from = args.from + row * args.from_row;
    uint16_t* to = args.to + row * args.to_row;
    int k = 0;
    for (; k + kStep <= args.k; k += kStep, from += 2 * args.from_chunk) {
      const VU values = RoundInOrder(LoadUnaligned(from), LoadUnaligned(from + args.from_chunk));
      __builtin_memcpy(to + k, &values, sizeof values);
    }
    if (k == args.k) continue;
    const int rest = args.k - k;
    const V second = rest > kLanes ? LoadPart(from + args.from_chunk, rest - kLanes) : V{};
    StoreElements(to + k, RoundInOrder(LoadUpTo(from, rest), second), rest);
  }
}

void PackLeftColumns(const Bf16PackArgs& args) {
  for (int column = 0; column < args.width; column += kLanes) {
    const int columns = MinInt(kLanes, args.width - column);
    for (int k = 0; k < args.k; k += kStep) {
      const int count = MinInt(kStep, args.k - k);
      VU block[kLanes] = {};
      for (int pair = 0; 2 * pair < count; ++pair) {
        const float* from = args.from + (k + 2 * pair) * args.from_row + column;
        const V odd = 2 * pair + 1 < count ? LoadUpTo(from + args.from_row, columns) : V{};
        block[pair] = RoundPairs(LoadUpTo(from, columns), odd);
      }
      TransposePairs(block);
      for (int i = 0; i < columns; ++i) StoreElements(args.to + (column + i) * args.to_row + k, block[i], count);
    }
  }
}

void PackRight(const Bf16PackArgs& args) {
  V sum = args.sums == nullptr ? V{} : LoadUnaligned(args.sums);
  const float* from = args.from;
  uint16_t* to = args.to;
  for (int k = 0; k < args.k; k += 2, from += 2 * args.from_row, to += kGroupPair) {
    const V even = LoadUpTo(from, args.width);
    const V odd = k + 1 < args.k ? LoadUpTo(from + args.from_row, args.width) : V{};
    const VU pair = RoundPairs(even, odd);
    __builtin_memcpy(to, &pair, sizeof pair);
    if (args.sums != nullptr) sum = (sum + even) + odd;
  }
  if (args.sums != nullptr) StoreUnaligned(args.sums, sum);
}

void PackRightRows(const Bf16PackArgs& args) {
  for (int k = 0; k < args.k; k += kStep) {
    const int count = MinInt(kStep, args.k - k);
    VU block[kLanes] = {};
    for (int lane = 0; lane < args.width; ++lane) {
      const float* from = args.from + lane * args.from_row + k / kLanes * args.from_chunk;
      const V second = count > kLanes ? LoadUpTo(from + args.from_chunk, count - kLanes) : V{};
      block[lane] = RoundInOrder(LoadUpTo(from, count), second);
    }
    TransposePairs(block);
    __builtin_memcpy(args.to + k / 2 * kGroupPair, block, sizeof block);
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
