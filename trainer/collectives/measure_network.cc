#include "trainer/collectives/measure_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/collectives/operation.h"
#include "trainer/collectives/tree_order.h"

namespace trainyard::engine {
namespace {

// All-reduces of one size, each of both algorithms.
struct Stage {
  size_t elements = 0;
  int repeats = 0;
};

std::array<Stage, 3> StagesOf(int ranks) {
  // No slice of the smallest is empty. The middle one tells whether there is time for the largest.
  return {{{std::max<size_t>(64, static_cast<size_t>(ranks)), 6}, {8 << 10, 2}, {128 << 10, 3}}};
}

// Seconds to add a byte to another one.
double MeasureAdditions(Clock& clock) {
  constexpr size_t kFloats = 4096;
  constexpr int kTimes = 16;
  constexpr int kRepeats = 3;
  const std::vector<float> values(kFloats, 1.0F);
  std::vector<float> sum(kFloats);
  TreeSum tree(2, kFloats);
  double best = 1;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const absl::Time start = clock.Now();
    for (int i = 0; i < kTimes; ++i) {
      tree.Begin(kFloats);
      tree.Add(sum);
      tree.Add(values);
      tree.FinishInto(sum, /*divisor=*/1);
    }
    best = std::min(best, absl::ToDoubleSeconds(clock.Now() - start));
  }
  return best / (kTimes * kFloats * sizeof(float));
}

class Measurement {
 public:
  Measurement(RankGroup& group, const MeasureOptions& options)
      : group_(group),
        options_(options),
        layout_(group.layout()),
        measured_{AllReduceAlgorithm::kDirect, OfManyRounds(layout_)},
        stages_(StagesOf(layout_.ranks)) {}

  absl::StatusOr<MeasuredNetwork> Run() {
    TY_RETURN_IF_ERROR(Sum(measured_[0], stages_[0].elements, /*stop=*/false).status());  // streams open, ranks arrive
    TY_RETURN_IF_ERROR(RunStages());
    return Agree();
  }

 private:
  struct Best {
    std::array<double, 2> seconds = {0, 0};  // by algorithm; 0: not measured
  };

  absl::Status RunStages() {
    const absl::Time start = options_.clock->Now();
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      for (int repeat = 0; repeat < stages_[stage].repeats; ++repeat) {
        for (size_t algorithm = 0; algorithm < measured_.size(); ++algorithm) {
          const bool last = repeat + 1 == stages_[stage].repeats && algorithm + 1 == measured_.size();
          const double next = Expected(stage) * (last ? GrowthBehind(stage) : 1);
          const double spent = absl::ToDoubleSeconds(options_.clock->Now() - start);
          // Both algorithms are measured once, whatever it takes.
          const bool may_stop = stage > 0 || repeat > 0;
          const bool stop = may_stop && spent + Expected(stage) + next > absl::ToDoubleSeconds(options_.at_most);
          const absl::Time begun = options_.clock->Now();
          TY_ASSIGN_OR_RETURN(const bool stopped, Sum(measured_[algorithm], stages_[stage].elements, stop));
          const double seconds = std::max(absl::ToDoubleSeconds(options_.clock->Now() - begun), 1e-9);
          double& best = best_[stage].seconds[algorithm];
          best = best > 0 ? std::min(best, seconds) : seconds;
          if (stopped) return absl::OkStatus();
        }
      }
    }
    return absl::OkStatus();
  }

  // Seconds of an all-reduce of this stage; of one that was not measured yet, nothing.
  double Expected(size_t stage) const { return std::max(best_[stage].seconds[0], best_[stage].seconds[1]); }
  // The time of the next stage, in times of this one. Latency is most of the smallest; behind it
  // bytes count.
  double GrowthBehind(size_t stage) const {
    if (stage + 1 == stages_.size()) return 0;
    if (stage == 0) return 4;
    return static_cast<double>(stages_[stage + 1].elements) / static_cast<double>(stages_[stage].elements);
  }

  // One all-reduce. True: a rank wants no more of them, as all ranks hear alike.
  absl::StatusOr<bool> Sum(AllReduceAlgorithm algorithm, size_t elements, bool stop) {
    own_.assign(elements, 0.0F);
    own_[0] = stop ? 1.0F : 0.0F;
    sum_.resize(elements);
    TY_RETURN_IF_ERROR(Do({.name = "measurement", .buckets = {}}, AllReduce(algorithm, options_.rank, layout_, elements), own_, sum_));
    return sum_[0] > 0;
  }

  absl::Status Do(OperationPlan plan, Schedule schedule, std::span<const float> own, std::span<float> result) {
    plan.buckets.push_back({.name = "'times'", .elements = result.size(), .schedule = std::move(schedule)});
    Operation operation(plan, options_.rank, layout_.ranks, group_.borrowed());
    group_.Begin(operation, {.step = kFirstMeasurement + done_++, .kind = OperationId::Kind::kReduce});
    BucketValues values{.own = {}, .targets = {{.values = result}}};
    if (!own.empty()) values.own.push_back(own);
    group_.Contribute(0, std::move(values));
    return group_.Wait().status();
  }

  // The largest size of which both algorithms were measured, beside the smallest.
  std::optional<AllReduceTimes> LargeTimes() const {
    for (size_t stage = stages_.size(); --stage > 0;) {
      const auto& [direct, rounds] = best_[stage].seconds;
      if (direct > 0 && rounds > 0) return AllReduceTimes{.elements = stages_[stage].elements, .direct = direct, .rounds = rounds};
    }
    return std::nullopt;
  }

  // Rank 0 tells costs and choice as floats, which hold each of them exactly enough.
  absl::StatusOr<MeasuredNetwork> Agree() {
    std::array<float, 8> told = {};
    const bool first = options_.rank == 0;
    if (first) {
      const AllReduceTimes small{.elements = stages_[0].elements, .direct = best_[0].seconds[0], .rounds = best_[0].seconds[1]};
      const NetworkCost cost = CostOf(small, LargeTimes(), MeasureAdditions(*options_.clock), layout_);
      const AlgorithmChoice choice = CheapestBySize(cost, layout_, kBucketBytes);
      told = {static_cast<float>(cost.latency),     static_cast<float>(cost.message),  static_cast<float>(cost.direct_byte),
              static_cast<float>(cost.rounds_byte), static_cast<float>(cost.add_byte), static_cast<float>(choice.small),
              static_cast<float>(choice.large),     static_cast<float>(choice.up_to)};
    }
    std::array<float, 8> heard = told;
    TY_RETURN_IF_ERROR(Do({.name = "choice of algorithms", .buckets = {}}, Broadcast(options_.rank, layout_.ranks, heard.size()),
                          first ? std::span<const float>(told) : std::span<const float>(), heard));
    return Parse(heard);
  }

  absl::StatusOr<MeasuredNetwork> Parse(const std::array<float, 8>& told) const {
    const auto known = [this](float number) {
      return std::ranges::any_of(measured_, [number](AllReduceAlgorithm each) { return number == static_cast<float>(each); });
    };
    if (!known(told[5]) || !known(told[6]) || !(told[7] >= 0 && told[7] <= static_cast<float>(kBucketBytes))) {
      return absl::InvalidArgumentError(
          fmt::format("rank 0 chose the algorithms {} and {} up to {} bytes, which there are not", told[5], told[6], told[7]));
    }
    return MeasuredNetwork{
        .cost = {.latency = told[0], .message = told[1], .direct_byte = told[2], .rounds_byte = told[3], .add_byte = told[4]},
        .choice = {.small = static_cast<AllReduceAlgorithm>(told[5]),
                   .large = static_cast<AllReduceAlgorithm>(told[6]),
                   .up_to = static_cast<size_t>(told[7])}};
  }

  RankGroup& group_;
  const MeasureOptions options_;
  const RankLayout layout_;
  const std::array<AllReduceAlgorithm, 2> measured_;
  const std::array<Stage, 3> stages_;
  std::array<Best, 3> best_;
  int64_t done_ = 0;
  std::vector<float> own_;
  std::vector<float> sum_;
};

}  // namespace

absl::StatusOr<MeasuredNetwork> MeasureNetwork(RankGroup& group, const MeasureOptions& options) {
  if (group.ranks() == 1) return MeasuredNetwork{};
  return Measurement(group, options).Run();
}

}  // namespace trainyard::engine
