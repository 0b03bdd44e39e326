// One bucket's way through its schedule, with no I/O: what is to be sent, and what becomes of what
// was received.
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

// The divisor of a sum, applied once, where the sum is complete.
enum class Divisor : uint8_t {
  kNone,
  kAll,           // gradients: by the number of all ranks' devices
  kContributors,  // next values: by the number of devices that contributed
};

// Where results go.
struct BucketTarget {
  std::span<float> values;
  Divisor divisor = Divisor::kNone;
};

// Makes something else of a sum than its mean, on the rank that is the first to have it; the others
// get what it made.
class SumOwner {
 public:
  virtual ~SumOwner() = default;
  // The sum, undivided, of `contributors` > 0 devices, of elements from `begin` on. Writes what
  // becomes of it into the memory of the bucket's targets. Any thread; each element of this rank's
  // range comes once.
  virtual void Take(size_t begin, std::span<const float> sum, int contributors) = 0;
  // After the last Take; without one if no rank contributed.
  virtual void Done() = 0;
};

// This rank's part in the exchange of a bucket. Both lists hold elements of the bucket one after
// the other: all of them, or all that this rank's schedule sends or receives.
struct BucketValues {
  std::vector<std::span<const float>> own;  // empty: this rank contributes nothing
  int addends = 1;                          // devices of this rank whose values are summed in `own`
  std::vector<BucketTarget> targets;        // empty: the result is not wanted
  size_t own_begin = 0;                     // the element that the first of them begins with
  size_t targets_begin = 0;
  SumOwner* owner = nullptr;  // null: sums are divided, and put into the targets
};

// A peer's part: the sum of the values of `contributors` devices, or nothing.
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

// Begin, then for each round TakeSends and, with all that the round receives, Receive; until
// done(). Not thread-safe. Sends point into the caller's memory. Own values must stay as they are
// until `borrowed` is 0. Targets must until `results` is 0, or until a later exchange of the same
// schedule writes them: that comes behind a contribution of every rank, which has read the results
// of this exchange by then.
class Exchange {
 public:
  // Of `ranks` ranks with `devices` devices each. `schedule` and the counts must outlive it. The
  // counts may be the same one.
  Exchange(int rank, int ranks, int devices, const Schedule& schedule, size_t elements, BorrowCount& borrowed, BorrowCount& results);

  // `past_caches`: received results will not be read while they would stay there.
  void Begin(BucketValues values, bool past_caches = false);
  size_t round() const { return round_; }
  bool done() const { return round_ == schedule_.rounds.size(); }
  std::vector<PartToSend> TakeSends();
  // By the round's receives. InvalidArgument: a peer and another one tell different numbers of
  // contributors, or more than there are devices.
  absl::Status Receive(std::span<const ReceivedPart> parts);
  // Of the result: how many devices contributed. 0: the targets stay as they are.
  int contributors() const { return contributors_; }

 private:
  // The sum of own and received values of a range becomes what this rank has of it.
  absl::Status Reduce(const Round& round, std::span<const ReceivedPart> parts);
  absl::Status Gather(const Round& round, std::span<const ReceivedPart> parts);
  // The next block of the whole sum, elements [begin, begin + count): to its owner, or into the
  // targets, divided.
  void Conclude(size_t begin, size_t count);
  void Put(size_t begin, std::span<const float> sum);
  float DivisorOf(const BucketTarget& target) const;
  std::shared_ptr<Buffer> TakeBuffer(size_t floats);
  // Of the values that are sent: held until the peer has read them.
  std::shared_ptr<const void> OwnerOf(const Transfer& transfer);
  // Where this rank has its values of a range.
  std::vector<std::span<const float>> Have(SliceRange range) const;

  const int rank_;
  const int all_;  // devices of all ranks
  const Schedule& schedule_;
  BorrowCount& borrowed_;
  BorrowCount& results_;
  const size_t last_reduce_;  // rounds up to it reduce
  BucketValues values_;
  bool past_caches_ = false;
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
