// One bucket's way through its schedule, with no I/O: what is to be sent, and what becomes of what was received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/collectives/schedule.h"
#include "trainer/collectives/tree_order.h"
#include "trainer/tensor/buffer.h"
#include "trainer/transport/borrow_count.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// What a sum is divided by, once, where it is complete.
enum class Divisor : uint8_t {
  kNone,
  kRanks,         // gradients: by the number of ranks
  kContributors,  // next values: by the number of ranks that contributed
};

// Where results go.
struct BucketTarget {
  std::span<float> values;
  Divisor divisor = Divisor::kNone;
};

// This rank's part in the exchange of a bucket. Both lists hold all elements of the bucket, in their order.
struct BucketValues {
  std::vector<std::span<const float>> own;  // empty: this rank contributes nothing
  std::vector<BucketTarget> targets;        // empty: the result is not wanted
};

// What a peer sent: the values of `contributors` ranks, or nothing.
struct ReceivedPart {
  int contributors = 0;
  Payload payload;  // of the transfer's range where contributors > 0; else empty
};

struct PartToSend {
  int peer = 0;
  SliceRange range;
  int contributors = 0;
  Payload payload;
};

// Begin, then for each round TakeSends and, with all that the round receives, Receive; until done(). Not thread-safe. Sends point into the
// caller's memory and hold `borrowed`: own values and targets must stay as they are until it is 0.
class Exchange {
 public:
  // `schedule` and `borrowed` must outlive it.
  Exchange(int rank, int ranks, const Schedule& schedule, size_t elements, BorrowCount& borrowed);

  void Begin(BucketValues values);
  size_t round() const { return round_; }
  bool done() const { return round_ == schedule_.rounds.size(); }
  std::vector<PartToSend> TakeSends();
  // By the round's receives. InvalidArgument: a peer and another one tell different numbers of contributors, or more than there are ranks.
  absl::Status Receive(std::span<const ReceivedPart> parts);
  // Of the result: how many ranks contributed. 0: the targets stay as they are.
  int contributors() const { return contributors_; }

 private:
  // The sum of own and received values of a range becomes what this rank has of it.
  absl::Status Reduce(const Round& round, std::span<const ReceivedPart> parts);
  absl::Status Gather(const Round& round, std::span<const ReceivedPart> parts);
  // The whole sum of elements from `begin` on: into the targets, divided.
  void Put(size_t begin, std::span<const float> sum);
  std::shared_ptr<Buffer> TakeBuffer(size_t floats);
  // Where this rank has its values of a range.
  std::vector<std::span<const float>> Have(SliceRange range) const;

  const int rank_;
  const int ranks_;
  const Schedule& schedule_;
  BorrowCount& borrowed_;
  const size_t last_reduce_;  // rounds up to it reduce
  BucketValues values_;
  size_t round_ = 0;
  int contributors_ = 0;  // of what this rank has
  // Partial sums of `partial_range_`; null: there is none yet.
  std::shared_ptr<Buffer> partial_;
  SliceRange partial_range_;
  std::vector<std::shared_ptr<Buffer>> spares_;  // for partial sums, by round
  std::unique_ptr<TreeSum> tree_;                // of the last number of summands
  bool concluded_ = false;                       // targets hold the result
};

}  // namespace trainyard::engine
