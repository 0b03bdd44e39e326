#include "trainer/collectives/operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {

Operation::Operation(const OperationPlan& plan, int rank, int ranks, BorrowCount& borrowed, BorrowCount& results)
    : plan_(plan), states_(plan.buckets.size()) {
  for (size_t i = 0; i < states_.size(); ++i) {
    const BucketPlan& bucket = plan.buckets[i];
    states_[i].exchange = std::make_unique<Exchange>(rank, ranks, plan.devices, bucket.schedule, bucket.elements, borrowed, results);
    for (const Round& round : bucket.schedule.rounds) states_[i].received.emplace_back(round.receives.size());
  }
}

void Operation::Begin(OperationId id, bool past_caches) {
  id_ = id;
  past_caches_ = past_caches;
  done_ = 0;
  TY_CHECK(taken_ == 0);
  for (State& state : states_) {
    for (std::vector<Slot>& round : state.received) {
      for (Slot& slot : round) slot = {};
    }
    state.round = 0;
    state.contributed = state.begun = state.done = false;
  }
}

void Operation::Contribute(size_t bucket, BucketValues values) {
  State& state = states_[bucket];
  TY_CHECK(!state.contributed);
  state.values = std::move(values);
  state.contributed = true;
}

absl::Status Operation::Place(int peer, const WireHeader& header, Payload payload) {
  const auto refuse = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("rank {}: {} of step {}: {}; do all ranks run the same version with the same job file?",
                                                  peer, plan_.name, id_.step, what));
  };
  const bool sum = header.op == WireOp::kSum;
  if (header.key >= states_.size()) return refuse(fmt::format("a part of bucket {}, expected below {}", header.key, states_.size()));
  State& state = states_[header.key];
  const std::vector<Round>& rounds = plan_.buckets[header.key].schedule.rounds;
  for (size_t round = 0; round < rounds.size(); ++round) {
    if ((rounds[round].kind == Round::Kind::kReduce) != sum) continue;
    for (size_t i = 0; i < rounds[round].receives.size(); ++i) {
      const Transfer& expected = rounds[round].receives[i];
      if (expected.peer != peer) continue;
      Slot& slot = state.received[round][i];
      if (slot.arrived) return refuse(fmt::format("bucket {} came twice", plan_.buckets[header.key].name));
      const uint64_t offset = expected.range.begin * sizeof(float);
      const uint64_t length = header.slot > 0 ? expected.range.count * sizeof(float) : 0;
      if (header.offset != offset || header.length != length || header.dtype != 0) {
        return refuse(fmt::format("bucket {}: found {} bytes at {} of {} devices, type {}, expected {} bytes at {}, type 0",
                                  plan_.buckets[header.key].name, header.length, header.offset, header.slot, header.dtype, length, offset));
      }
      slot.arrived = true;
      slot.part = ReceivedPart{.contributors = header.slot, .payload = std::move(payload)};
      return absl::OkStatus();
    }
  }
  return refuse(fmt::format("a {} of bucket {}, expected none from this rank", WireOpName(header.op), plan_.buckets[header.key].name));
}

bool Operation::HasAll(const State& state) const {
  return std::ranges::all_of(state.received[state.round], [](const Slot& slot) { return slot.part.has_value(); });
}

std::optional<Operation::Taken> Operation::TakeReady() {
  const size_t first = FirstUnfinished();
  for (size_t i = first; i < std::min(states_.size(), first + kBucketsUnderWay); ++i) {
    State& state = states_[i];
    if (state.taken || state.done) continue;
    Taken taken{.bucket = i, .begins = !state.begun, .parts = {}};
    if (!state.begun) {
      if (!state.contributed) return std::nullopt;  // later ones begin later
      state.begun = true;
    } else if (!HasAll(state)) {
      continue;
    } else {
      for (Slot& slot : state.received[state.round]) taken.parts.push_back(*std::exchange(slot.part, std::nullopt));
    }
    state.taken = true;
    ++taken_;
    return taken;
  }
  return std::nullopt;
}

Operation::Sent Operation::GoOn(const Taken& taken) {
  State& state = states_[taken.bucket];
  Exchange& exchange = *state.exchange;
  Sent sent;
  if (taken.begins) {
    exchange.Begin(std::move(state.values), past_caches_);
  } else if (const absl::Status status = exchange.Receive(taken.parts); !status.ok()) {
    sent.status = absl::InvalidArgumentError(fmt::format("{}: {}", Describe(taken.bucket), std::string(status.message())));
    return sent;
  }
  if (exchange.done()) return sent;
  sent.sends = exchange.TakeSends();
  sent.reduce = plan_.buckets[taken.bucket].schedule.rounds[exchange.round()].kind == Round::Kind::kReduce;
  return sent;
}

void Operation::Return(size_t bucket) {
  State& state = states_[bucket];
  state.taken = false;
  --taken_;
  state.round = state.exchange->round();
  if (!state.exchange->done()) return;
  state.done = true;
  ++done_;
}

size_t Operation::bytes() const {
  size_t elements = 0;
  for (const BucketPlan& bucket : plan_.buckets) elements += bucket.elements;
  return elements * sizeof(float);
}

size_t Operation::FirstUnfinished() const { return static_cast<size_t>(std::ranges::find(states_, false, &State::done) - states_.begin()); }

std::vector<int> Operation::Awaited() const {
  std::vector<int> ranks;
  const size_t bucket = FirstUnfinished();
  if (bucket == states_.size() || !states_[bucket].begun || states_[bucket].taken) return ranks;
  const size_t round = states_[bucket].round;
  for (size_t i = 0; i < states_[bucket].received[round].size(); ++i) {
    if (!states_[bucket].received[round][i].arrived) ranks.push_back(plan_.buckets[bucket].schedule.rounds[round].receives[i].peer);
  }
  return ranks;
}

std::string Operation::Describe() const { return Describe(FirstUnfinished()); }

std::string Operation::Describe(size_t bucket) const {
  const std::string step = id_.step < 0 ? plan_.name : fmt::format("{} of step {}", plan_.name, id_.step);
  return bucket < states_.size() ? fmt::format("{}, bucket {} {}", step, bucket, plan_.buckets[bucket].name) : step;
}

std::string Operation::DescribeAwaited() const {
  const std::vector<int> ranks = Awaited();
  if (ranks.empty()) return fmt::format("{}: this rank's own values", Describe());
  return fmt::format("{}: rank{} {}", Describe(), ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace trainyard::engine
