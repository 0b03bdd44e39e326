// The order in which a reduction adds: the same on the device and in the host tests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"

namespace trainyard::engine::cuda {

// The terms of an output are cut into `splits` ranges. In each, lane l of `lanes` (a power of two)
// adds every lanes-th term from l on; then the upper half of the lanes is added to the lower, again
// and again. Last, the ranges' sums are added likewise, by kStoreLanes lanes.
struct SumOrder {
  static constexpr int kMostLanes = 256;
  static constexpr int kMostTile = 32;
  static constexpr int kStoreLanes = 16;

  int64_t terms;
  int32_t splits;
  int32_t lanes;
  int32_t tile;  // outputs beside each other that one block takes, with kAcross

  TY_DEVICE int64_t Begin(int32_t split) const { return terms * split / splits; }
  TY_DEVICE int64_t End(int32_t split) const { return terms * (split + 1) / splits; }
};

// Enough blocks for the largest devices, but no block with a few terms only.
inline SumOrder OrderOf(bool across, int64_t outputs, int64_t terms) {
  constexpr int64_t kBlocks = 512;
  constexpr int64_t kMostSplits = 128;
  constexpr int64_t kTermsOfASplit = 1024;
  int32_t tile = 1;
  while (across && tile < SumOrder::kMostTile && tile < outputs) tile *= 2;
  const int64_t blocks = (outputs + tile - 1) / tile;
  const int64_t wanted = std::min({kBlocks / std::max<int64_t>(1, blocks), terms / kTermsOfASplit, kMostSplits});
  int32_t lanes = across ? SumOrder::kMostLanes / tile : 32;
  while (!across && lanes < SumOrder::kMostLanes && lanes < terms) lanes *= 2;
  return {terms, static_cast<int32_t>(std::max<int64_t>(1, wanted)), lanes, tile};
}

template <typename Body>
TY_DEVICE typename Body::Sum LaneSum(const Body& body, const SumOrder& order, int64_t output, int32_t split, int32_t lane) {
  constexpr int kAhead = 8;  // terms that are loaded before the first of them is added
  typename Body::Sum sum = Body::Zero();
  int64_t i = order.Begin(split) + lane;
  const int64_t end = order.End(split);
  for (; i + (kAhead - 1) * order.lanes < end; i += kAhead * order.lanes) {
    typename Body::Sum terms[kAhead];
    for (int k = 0; k < kAhead; ++k) terms[k] = body.Term(output, i + k * order.lanes);
    for (int k = 0; k < kAhead; ++k) sum = Body::Combine(sum, terms[k]);
  }
  for (; i < end; i += order.lanes) sum = Body::Combine(sum, body.Term(output, i));
  return sum;
}

// What lane `lane` of kStoreLanes adds of partial [splits, outputs].
template <typename Body>
TY_DEVICE typename Body::Sum SplitSum(const SumOrder& order, int64_t outputs, int64_t output, int32_t lane,
                                      const typename Body::Sum* partial) {
  typename Body::Sum sum = Body::Zero();
  for (int32_t split = lane; split < order.splits; split += SumOrder::kStoreLanes) {
    sum = Body::Combine(sum, partial[split * outputs + output]);
  }
  return sum;
}

}  // namespace trainyard::engine::cuda
