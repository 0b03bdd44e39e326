#include "trainer/collectives/cost_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

using enum AllReduceAlgorithm;

constexpr size_t kSmallest = 1 << 10;  // bytes: no bucket that matters is smaller

// What an all-reduce has of each cost.
struct Amounts {
  double rounds = 0;
  double messages = 0;  // beyond the first of each round
  double bytes = 0;     // the more of sent and received
  double added = 0;     // bytes
};

// Rank 0 is in the largest block of halvingDoubling, whose ranks have the most rounds.
Amounts AmountsOf(AllReduceAlgorithm algorithm, const RankLayout& layout, size_t elements) {
  Amounts amounts;
  for (const Round& round : AllReduce(algorithm, 0, layout, elements).rounds) {
    const auto floats = [](const std::vector<Transfer>& transfers) {
      size_t sum = 0;
      for (const Transfer& transfer : transfers) sum += transfer.range.count;
      return sum;
    };
    const size_t received = floats(round.receives);
    ++amounts.rounds;
    amounts.messages += static_cast<double>(std::max(round.sends.size(), round.receives.size())) - 1;
    amounts.bytes += static_cast<double>(std::max(floats(round.sends), received) * sizeof(float));
    if (round.kind == Round::Kind::kReduce) amounts.added += static_cast<double>(received * sizeof(float));
  }
  return amounts;
}

// Seconds a byte by which the larger all-reduce took longer.
double ByteCost(double small_seconds, double large_seconds, const Amounts& small, const Amounts& large, double add_byte) {
  const double longer = large_seconds - small_seconds - (large.added - small.added) * add_byte;
  return std::max(0.0, longer / (large.bytes - small.bytes));
}

double FixedCost(double seconds, const Amounts& amounts, double byte, double add_byte) {
  return std::max(0.0, seconds - amounts.bytes * byte - amounts.added * add_byte);
}

std::string SizeText(size_t bytes) { return bytes >= (1 << 20) ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10); }

}  // namespace

AllReduceAlgorithm OfManyRounds(const RankLayout& layout) {
  return layout.per_node > 1 && layout.nodes() > 1 ? kHierarchical : kHalvingDoubling;
}

double AllReduceSeconds(AllReduceAlgorithm algorithm, const RankLayout& layout, size_t elements, const NetworkCost& cost) {
  TY_CHECK(algorithm != kAuto);
  const Amounts amounts = AmountsOf(algorithm, layout, elements);
  return amounts.rounds * cost.latency + amounts.messages * cost.message +
         amounts.bytes * (algorithm == kDirect ? cost.direct_byte : cost.rounds_byte) + amounts.added * cost.add_byte;
}

NetworkCost CostOf(const AllReduceTimes& small, const std::optional<AllReduceTimes>& large, double add_byte, const RankLayout& layout) {
  const AllReduceAlgorithm other = OfManyRounds(layout);
  const Amounts direct = AmountsOf(kDirect, layout, small.elements);
  const Amounts many = AmountsOf(other, layout, small.elements);
  if (direct.rounds == 0) return {};  // one rank
  NetworkCost cost{.add_byte = add_byte};
  if (large) {
    TY_CHECK(large->elements > small.elements);
    cost.direct_byte = ByteCost(small.direct, large->direct, direct, AmountsOf(kDirect, layout, large->elements), add_byte);
    cost.rounds_byte = ByteCost(small.rounds, large->rounds, many, AmountsOf(other, layout, large->elements), add_byte);
  }
  // Two equations: rounds * latency + messages * message = the fixed cost, of both algorithms.
  const double of_direct = FixedCost(small.direct, direct, cost.direct_byte, add_byte);
  const double of_many = FixedCost(small.rounds, many, cost.rounds_byte, add_byte);
  const double share = direct.messages > 0 ? many.messages / direct.messages : 0;
  cost.latency = std::max(0.0, (of_many - share * of_direct) / (many.rounds - share * direct.rounds));
  if (direct.messages > 0) cost.message = std::max(0.0, (of_direct - direct.rounds * cost.latency) / direct.messages);
  return cost;
}

AlgorithmChoice CheapestBySize(const NetworkCost& cost, const RankLayout& layout, size_t largest) {
  const AllReduceAlgorithm other = OfManyRounds(layout);
  const auto cheaper = [&](size_t bytes) {
    const size_t elements = bytes / sizeof(float);
    const double direct = AllReduceSeconds(kDirect, layout, elements, cost);
    return direct <= AllReduceSeconds(other, layout, elements, cost) ? kDirect : other;
  };
  if (layout.ranks <= 2) return {};  // both are one exchange each way
  AlgorithmChoice choice{.small = cheaper(kSmallest)};
  choice.large = choice.small;
  for (size_t bytes = 2 * kSmallest; bytes <= largest; bytes *= 2) {
    if (cheaper(bytes) == choice.small) continue;
    choice.large = choice.small == kDirect ? other : kDirect;
    choice.up_to = bytes / 2;
    break;  // costs grow with the size along straight lines, which meet once
  }
  return choice;
}

std::string ChoiceText(const AlgorithmChoice& choice, const RankLayout& layout) {
  const auto name = [&](AllReduceAlgorithm algorithm) {
    std::string text(AlgorithmName(algorithm));
    if (algorithm == kHierarchical) text += fmt::format(" ({} nodes of {})", layout.nodes(), layout.per_node);
    return text;
  };
  if (choice.small == choice.large) return name(choice.large);
  return fmt::format("{} up to {}, {} above", name(choice.small), SizeText(choice.up_to), name(choice.large));
}

std::string CostText(const NetworkCost& cost, const AlgorithmChoice& choice) {
  std::string text = fmt::format("latency {:.0f} us", 1e6 * cost.latency);
  const double byte = choice.large == kDirect ? cost.direct_byte : cost.rounds_byte;
  if (byte > 0) text += fmt::format(", {:.2g} GB/s", 1e-9 / byte);
  if (cost.add_byte > 0) text += fmt::format(", sums {:.2g} GB/s", 1e-9 / cost.add_byte);
  return text;
}

}  // namespace trainyard::engine
