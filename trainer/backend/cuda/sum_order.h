// The order in which a reduction adds: the same on the device and in the host tests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"

namespace trainyard::engine::cuda {

// The terms of an output are cut into `splits` ranges. In each, lane l of `lanes` (a power of two)
// adds every lanes-th term from l on; then the upper half of the lanes is added to the lower, again
// and again. Last, the ranges' sums are added in order.
struct SumOrder {
  static constexpr int kMostLanes = 256;
  static constexpr int kTile = 32;  // outputs beside each other that one block takes, with kAcross

  int64_t terms;
  int32_t splits;
  int32_t lanes;

  TY_DEVICE int64_t Begin(int32_t split) const { return terms * split / splits; }
  TY_DEVICE int64_t End(int32_t split) const { return terms * (split + 1) / splits; }
};

// Enough blocks for the largest devices, but no block with a few terms only.
inline SumOrder OrderOf(bool across, int64_t outputs, int64_t terms) {
  constexpr int64_t kBlocks = 512;
  constexpr int64_t kMostSplits = 128;
  constexpr int64_t kTermsOfASplit = 1024;
  const int64_t blocks = across ? (outputs + SumOrder::kTile - 1) / SumOrder::kTile : outputs;
  const int64_t wanted = std::min({kBlocks / std::max<int64_t>(1, blocks), terms / kTermsOfASplit, kMostSplits});
  int32_t lanes = across ? 8 : 32;
  while (!across && lanes < SumOrder::kMostLanes && lanes < terms) lanes *= 2;
  return {terms, static_cast<int32_t>(std::max<int64_t>(1, wanted)), lanes};
}

template <typename Body>
TY_DEVICE typename Body::Sum LaneSum(const Body& body, const SumOrder& order, int64_t output, int32_t split, int32_t lane) {
  typename Body::Sum sum = Body::Zero();
  for (int64_t i = order.Begin(split) + lane; i < order.End(split); i += order.lanes) sum = Body::Combine(sum, body.Term(output, i));
  return sum;
}

// partial [splits, outputs]
template <typename Body>
TY_DEVICE void StoreSplits(const Body& body, const SumOrder& order, int64_t outputs, int64_t output, const typename Body::Sum* partial) {
  typename Body::Sum sum = partial[output];
  for (int32_t split = 1; split < order.splits; ++split) sum = Body::Combine(sum, partial[split * outputs + output]);
  body.Store(output, sum);
}

}  // namespace trainyard::engine::cuda
