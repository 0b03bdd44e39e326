// The order in which a reduction adds: the same on the device and in the host tests.
#pragma once

#include <algorithm>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"
#include "trainer/backend/cuda/elements.h"

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
  int32_t neighbours;  // outputs that one thread takes, side by side
  int32_t tile;        // so many times these one block takes, with kAcross

  TY_DEVICE int64_t Begin(int32_t split) const { return terms * split / splits; }
  TY_DEVICE int64_t End(int32_t split) const { return terms * (split + 1) / splits; }
};

// Enough blocks for the largest devices, but no thread with a few terms only.
inline SumOrder OrderOf(bool across, int64_t outputs, int64_t terms) {
  constexpr int64_t kBlocks = 512;
  constexpr int64_t kMostSplits = 256;
  constexpr int64_t kTermsOfALane = 16;
  constexpr int64_t kTermsOfASplit = 1024;  // of outputs that lie apart
  const int32_t neighbours = across ? NeighboursIn(outputs) : 1;
  const int64_t threads = outputs / neighbours;
  int32_t tile = 1;
  while (across && tile < SumOrder::kMostTile && tile < threads) tile *= 2;
  int32_t lanes = across ? SumOrder::kMostLanes / tile : 32;
  while (!across && lanes < SumOrder::kMostLanes && lanes < terms) lanes *= 2;
  const int64_t blocks = (threads + tile - 1) / tile;
  const int64_t of_a_split = across ? kTermsOfALane * lanes : kTermsOfASplit;
  const int64_t wanted = std::min({kBlocks / std::max<int64_t>(1, blocks), terms / of_a_split, kMostSplits});
  return {terms, static_cast<int32_t>(std::max<int64_t>(1, wanted)), lanes, neighbours, tile};
}

// What a lane adds up by itself, where a body has no way of its own.
template <typename Body>
class PlainLane {
 public:
  using Term = typename Body::Sum;
  TY_DEVICE void Add(Term term) { sum_ = Body::Combine(sum_, term); }
  TY_DEVICE typename Body::Sum Total() const { return sum_; }

 private:
  typename Body::Sum sum_ = Body::Zero();
};
template <typename Body>
struct LaneOfBody {
  using Type = PlainLane<Body>;
};
template <typename Body>
  requires requires { typename Body::Lane; }
struct LaneOfBody<Body> {
  using Type = typename Body::Lane;
};

// Of kN outputs from `output` on; kN is 1 for outputs that lie apart.
template <int kN, typename Body>
TY_DEVICE void LaneSums(const Body& body, const SumOrder& order, int64_t output, int32_t split, int32_t lane,
                        typename Body::Sum (&sums)[kN]) {
  using Lane = typename LaneOfBody<Body>::Type;
  // Terms that are loaded before the first of them is added: what registers hold.
  constexpr int kAhead = kN * sizeof(typename Lane::Term) > 16 ? 4 : 8;
  const auto load = [&](int64_t i, typename Lane::Term(&terms)[kN]) {
    if constexpr (Body::kAcross) {
      body.Terms(output, i, terms);
    } else {
      terms[0] = body.Term(output, i);
    }
  };
  Lane lanes[kN];
  int64_t i = order.Begin(split) + lane;
  const int64_t end = order.End(split);
  for (; i + (kAhead - 1) * order.lanes < end; i += kAhead * order.lanes) {
    typename Lane::Term terms[kAhead][kN];
    for (int step = 0; step < kAhead; ++step) load(i + step * order.lanes, terms[step]);
    for (int step = 0; step < kAhead; ++step) {
      for (int k = 0; k < kN; ++k) lanes[k].Add(terms[step][k]);
    }
  }
  for (; i < end; i += order.lanes) {
    typename Lane::Term terms[kN];
    load(i, terms);
    for (int k = 0; k < kN; ++k) lanes[k].Add(terms[k]);
  }
  for (int k = 0; k < kN; ++k) sums[k] = lanes[k].Total();
}

// What lane `lane` of kStoreLanes adds of partial [splits, outputs].
template <typename Body>
TY_DEVICE typename Body::Sum SplitSum(const SumOrder& order, int64_t outputs, int64_t output, int32_t lane,
                                      const typename Body::Sum* partial) {
  constexpr int kAhead = 8;
  typename Body::Sum sum = Body::Zero();
  int32_t split = lane;
  for (; split + (kAhead - 1) * SumOrder::kStoreLanes < order.splits; split += kAhead * SumOrder::kStoreLanes) {
    typename Body::Sum loaded[kAhead];
    for (int step = 0; step < kAhead; ++step) loaded[step] = partial[(split + step * SumOrder::kStoreLanes) * outputs + output];
    for (int step = 0; step < kAhead; ++step) sum = Body::Combine(sum, loaded[step]);
  }
  for (; split < order.splits; split += SumOrder::kStoreLanes) sum = Body::Combine(sum, partial[split * outputs + output]);
  return sum;
}

}  // namespace trainyard::engine::cuda
