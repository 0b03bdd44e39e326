// The one order in which Trainyard adds what ranks contribute: docs/collectives.md says why it is
// fixed and who follows it.
//
// Ranks [0, n) are cut at p, the largest power of two below n: sum[0, n) = sum[0, p) + sum[p, n),
// and both sides likewise. Of six ranks:
//   ((0 + 1) + (2 + 3)) + (4 + 5)
// A rank that contributes nothing is left out: nothing + x is x, so that a -0 stays -0.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// Where the tree cuts [0, ranks); ranks >= 2.
int TreeSplit(int ranks);

// Adds one block of floats of each of `ranks` ranks: for each block Begin, then for each rank in
// order Add or AddNothing, then Finish. Four equal halves of halves become one sum in one pass over
// memory, (a + b) + (c + d). So it holds up to three partial sums for each power of four below
// `ranks`. Not thread-safe; allocates when it is made and at no other time.
class TreeSum {
 public:
  // Blocks have at most `block` floats.
  TreeSum(int ranks, size_t block);

  size_t ranks() const { return ranks_; }

  void Begin(size_t size);
  // Memory for the next rank's contribution, `size` floats, for a caller that has to copy it
  // together. It is not cleared.
  std::span<float> Scratch() { return {stack_[depth_].memory, size_}; }
  // Scratch, or memory that stays as it is until Finish.
  void Add(std::span<const float> contribution);
  void AddNothing() { Push({}); }
  // The sum, until the next Begin; empty: no rank had anything, or the block is empty. It may be a
  // contribution itself.
  std::span<const float> Finish();
  // The same divided by `divisor`, in memory of the caller's that may be a contribution's. Sum and
  // quotient are rounded one after the other. False: no rank had anything, `out` stays as it is.
  bool FinishInto(std::span<float> out, float divisor);

 private:
  struct Partial {
    float* memory = nullptr;
    const float* values = nullptr;  // null: nothing
    size_t ranks = 0;               // whose sum it is
  };
  void Push(std::span<const float> contribution);
  // Whether the four topmost partial sums are of equally many ranks.
  bool HasEqualFour() const;
  static bool AreAllThere(std::span<const Partial> sums);
  // The four topmost become one.
  void MergeFour();
  // The partial sums `at` and behind it become one.
  void MergeAt(size_t at);
  // What is left when every rank has been added becomes `most` partial sums, 1 or 2.
  void MergeTo(size_t most);

  size_t ranks_;
  Buffer memory_;
  std::vector<Partial> stack_;  // the first `depth_` are in use; the last one of them is the topmost
  size_t depth_ = 0;
  size_t size_ = 0;
  size_t added_ = 0;  // ranks so far
};

}  // namespace trainyard::engine
