// One operation that all ranks of a group do together (an all-reduce of a step's gradients, the
// broadcast of a state), with no I/O. It knows which buckets are under way, which parts of them
// have arrived, and which can go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "trainer/collectives/exchange.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// At most so many buckets are under way at once. A peer is at most as many ahead: bounds what waits
// here for this rank's turn.
inline constexpr size_t kBucketsUnderWay = 8;

struct BucketPlan {
  std::string name;  // for messages: "'conv1/kernel'"
  size_t elements = 0;
  Schedule schedule;
};

// The part of an operation that stays the same over the steps. It is equal on every rank but for
// the schedules.
struct OperationPlan {
  std::string name;  // "all-reduce"
  std::vector<BucketPlan> buckets;
  int devices = 1;  // of each rank
};

// The network is measured before the first step (measure_network.h): those operations have steps
// below 0, from this one on.
inline constexpr int64_t kFirstMeasurement = -1000;

// Operations of a group in their order: those of a step come after each other.
struct OperationId {
  enum class Kind : uint8_t {
    kState,   // the broadcast of what the step begins with
    kSlots,   // optimizer slots go to their owners, or to rank 0
    kReduce,  // the all-reduce
    kRows,    // of the rows that the all-reduce has found marked
  };
  int64_t step = 0;
  Kind kind = Kind::kReduce;
  friend auto operator<=>(const OperationId&, const OperationId&) = default;
};

// Not thread-safe, except that buckets that were taken (TakeReady) may be worked on without a lock.
class Operation {
 public:
  // `plan` and the counts must outlive it. Exchange says what they are of.
  Operation(const OperationPlan& plan, int rank, int ranks, BorrowCount& borrowed, BorrowCount& results);
  Operation(const OperationPlan& plan, int rank, int ranks, BorrowCount& borrowed) : Operation(plan, rank, ranks, borrowed, borrowed) {}

  // Starts it anew, for another step. `past_caches`: as Exchange::Begin.
  void Begin(OperationId id, bool past_caches = false);
  OperationId id() const { return id_; }
  // This rank's values of a bucket are there.
  void Contribute(size_t bucket, BucketValues values);
  // A peer's record. InvalidArgument names rank, operation, bucket and step: what was found, what
  // is expected.
  absl::Status Place(int peer, const WireHeader& header, Payload payload);

  // A bucket that can go on, with what has arrived for its round: its taker's until Return. Buckets
  // begin in their order.
  struct Taken {
    size_t bucket = 0;
    bool begins = false;
    std::vector<ReceivedPart> parts;
  };
  std::optional<Taken> TakeReady();
  // Without a lock: goes on with a taken bucket to its next round. No sends: the round has none, or
  // the bucket is done.
  struct Sent {
    absl::Status status;
    std::vector<PartToSend> sends;
    bool reduce = false;  // of the sends
  };
  Sent GoOn(const Taken& taken);
  void Return(size_t bucket);
  size_t taken() const { return taken_; }

  bool done() const { return done_ == states_.size(); }
  bool done(size_t bucket) const { return states_[bucket].done; }
  size_t buckets() const { return states_.size(); }
  size_t bytes() const;  // of all buckets
  bool past_caches() const { return past_caches_; }
  int contributors(size_t bucket) const { return states_[bucket].exchange->contributors(); }
  // Peers that the first unfinished bucket waits for; empty: none.
  std::vector<int> Awaited() const;
  // "all-reduce of step 7, bucket 2 'dense1/kernel'": of the first unfinished bucket.
  std::string Describe() const;
  std::string Describe(size_t bucket) const;
  // The same, with the ranks that it waits for.
  std::string DescribeAwaited() const;

 private:
  struct Slot {
    bool arrived = false;
    std::optional<ReceivedPart> part;  // until it is taken
  };
  struct State {
    std::unique_ptr<Exchange> exchange;       // its taker's alone
    std::vector<std::vector<Slot>> received;  // by round and receive
    BucketValues values;
    size_t round = 0;  // of the exchange
    bool contributed = false;
    bool begun = false;
    bool taken = false;
    bool done = false;
  };
  bool HasAll(const State& state) const;
  size_t FirstUnfinished() const;

  const OperationPlan& plan_;
  OperationId id_;
  bool past_caches_ = false;
  std::vector<State> states_;
  size_t done_ = 0;
  size_t taken_ = 0;
};

}  // namespace trainyard::engine
