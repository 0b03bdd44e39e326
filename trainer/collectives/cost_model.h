// The time of an all-reduce on the network at hand, and the algorithm that is cheaper for a size.
// Pure.
//
// The model is that of Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
// Operations in MPICH" (2005): a message of m bytes takes alpha + m beta, and adding m bytes takes
// m gamma. A rank sends all messages of a round at once. So a further message of a round costs the
// overhead `o` of LogP (Culler et al. 1993) in place of alpha. beta is told apart by algorithm: one
// peer at a time may be heard faster, or slower, than all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "trainer/collectives/rank_layout.h"
#include "trainer/collectives/schedule.h"

namespace trainyard::engine {

// In seconds.
struct NetworkCost {
  double latency = 0;      // alpha: a round with one message
  double message = 0;      // o: each further message of a round
  double direct_byte = 0;  // beta of direct: all peers at once
  double rounds_byte = 0;  // beta of the algorithm of many rounds: one peer after the other
  double add_byte = 0;     // gamma
};

// The algorithm that is weighed against direct: hierarchical where ranks share nodes and there are
// several nodes, else halvingDoubling.
AllReduceAlgorithm OfManyRounds(const RankLayout& layout);

// Of a bucket of `elements` floats, from the first message to the result, as rank 0 sees it.
// `algorithm` is not kAuto.
double AllReduceSeconds(AllReduceAlgorithm algorithm, const RankLayout& layout, size_t elements, const NetworkCost& cost);

// Measured times of whole all-reduces, in seconds.
struct AllReduceTimes {
  size_t elements = 0;
  double direct = 0;
  double rounds = 0;  // of OfManyRounds
};
// The costs that explain the times. Without `large` there was no time to measure it, and bytes cost
// nothing. Noise never makes a cost negative.
NetworkCost CostOf(const AllReduceTimes& small, const std::optional<AllReduceTimes>& large, double add_byte, const RankLayout& layout);

// Buckets of up to `up_to` bytes take `small`, others take `large`.
struct AlgorithmChoice {
  AllReduceAlgorithm small = AllReduceAlgorithm::kDirect;
  AllReduceAlgorithm large = AllReduceAlgorithm::kDirect;
  size_t up_to = 0;
  AllReduceAlgorithm Of(size_t bytes) const { return bytes <= up_to ? small : large; }
  friend bool operator==(const AlgorithmChoice&, const AlgorithmChoice&) = default;
};

// The cheaper algorithm for each size from 1 KiB to `largest` bytes, in powers of two; direct where
// both cost the same.
AlgorithmChoice CheapestBySize(const NetworkCost& cost, const RankLayout& layout, size_t largest);

// "direct up to 64 KiB, halvingDoubling above"; "hierarchical (3 nodes of 2)"
std::string ChoiceText(const AlgorithmChoice& choice, const RankLayout& layout);
// "latency 40 us, 3.1 GB/s": of what is measured, as the algorithm for large buckets sees it.
std::string CostText(const NetworkCost& cost, const AlgorithmChoice& choice);

}  // namespace trainyard::engine
