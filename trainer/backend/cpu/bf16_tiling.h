// How the operands of a bf16 product are cut into tiles: a function of the shape alone, as the
// order of sums is.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"

namespace trainyard::engine {

// `rows` of the left operand in blocks, `run` pairs along the sum in steps, both as even as they
// go.
struct Bf16Tiling {
  int blocks = 0, block = 1;
  int steps = 0, pairs = 1;

  Bf16Tiling(int64_t rows, int64_t run) {
    blocks = static_cast<int>((rows + kMostTileRows - 1) / kMostTileRows);
    if (blocks > 0) block = static_cast<int>((rows + blocks - 1) / blocks);
    steps = static_cast<int>((run + kMostTilePairs - 1) / kMostTilePairs);
    if (steps > 0) pairs = static_cast<int>((run + steps - 1) / steps);
  }

  int step_elements() const { return 2 * pairs; }
  int run_elements() const { return steps * step_elements(); }
  int64_t padded_rows() const { return int64_t{blocks} * block; }

  void ApplyTo(Bf16ProductArgs& args) const {
    args.block = block;
    args.pairs = pairs;
    args.inner = steps;
    args.outer = 1;
    args.a_inner = step_elements();
    args.b_inner = pairs * kGroupPair;
  }
};

// Elements of a row of a left operand: whole lines of the cache, an odd number of them, so that
// rows do not share few lines.
inline int64_t LeftRow(int64_t elements) { return ((elements + kGroupPair - 1) / kGroupPair | 1) * kGroupPair; }

// Pairs are read up to a whole step: so many elements behind a right operand can be read.
inline constexpr int64_t kRightSlack = kMostTilePairs * kGroupPair;

constexpr int64_t FloatsOf(int64_t elements) { return PaddedFloats((elements + 1) / 2); }
inline int64_t GroupsFor(int64_t columns) { return VectorsFor(columns); }
inline int LastLanes(int64_t columns) { return static_cast<int>(columns - (GroupsFor(columns) - 1) * kLanes); }

// Products of one tiling on this thread, for as long as it lives.
class Bf16Section {
 public:
  Bf16Section(const CpuDevice& device, const Bf16Tiling& tiling) : kernels_(*device.bf16) {
    if (kernels_.begin != nullptr) kernels_.begin(tiling.block, tiling.pairs);
  }
  ~Bf16Section() {
    if (kernels_.end != nullptr) kernels_.end();
  }
  Bf16Section(const Bf16Section&) = delete;
  Bf16Section& operator=(const Bf16Section&) = delete;
  void Run(const Bf16ProductArgs& args) const { kernels_.product(args); }

 private:
  const Bf16Kernels& kernels_;
};

}  // namespace trainyard::engine
