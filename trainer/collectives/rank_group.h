// All trainers of a job as one group of ranks that add and hand on values together, without servers (docs/collectives.md).
//
// A group forms at rank 0: every other rank joins there, rank 0 names the group and the step at which the training goes on, then ranks open
// streams to the peers that their schedules need. A group lasts until a rank is lost, leaves or disagrees; then every call returns
// Aborted on every rank, and the next group is formed by Join (rank 0: Gather and Form).
//
// An operation: Begin, Contribute for each bucket, Wait. All ranks do the same ones in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/base/timeouts.h"
#include "trainer/collectives/join_request.h"
#include "trainer/collectives/operation.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

class GroupCore;
class WaitNotice;

inline constexpr size_t kBucketBytes = 1 << 20;  // of a bucket, at most

struct RankGroupOptions {
  std::vector<std::string> hosts;  // by rank: where each is dialled
  std::string listen;              // where this rank listens
  int rank = 0;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kAuto;  // of the operations to come: which peers there are streams with
  GroupAgreement agreement;
  uint64_t fingerprint = 0;  // of the model, in every record
  // connect: the first Join or Gather. peer: every other wait for a rank; a rank that shows activity is waited for as long as it does.
  TimeoutsConfig timeouts;
  absl::Duration heartbeat_period = absl::Seconds(2);
  Clock* clock = &RealClock();  // of the timeouts; must outlive the group
  // True: this replica was asked to stop. Waits for others then end soon, with Cancelled.
  std::function<bool()> stopping;
};

// What the other ranks told rank 0 when they joined.
struct Gathered {
  int64_t furthest = -1;         // the step that any of them had come to; -1: none has trained
  std::string because;           // why they join anew
  bool from_checkpoint = false;  // one cannot go on from values in memory
};

struct Formed {
  int64_t step = 0;
  bool finished = false;  // there is no group: the training is over at `step`
};

struct Waited {
  bool ended = false;  // rank 0 has ended the training: the operation has left no trace anywhere
};

// Used from one thread (the step loop's); Contribute may come from another, never at the same time as another call.
// Owns one thread; I/O and additions happen on the transport's threads too. Errors name rank, operation, bucket and step.
//   Aborted: the group is no more; the next one may form. DeadlineExceeded: what was waited for. Cancelled: stopping.
//   FailedPrecondition, InvalidArgument: a rank disagrees; it cannot be cured by a restart.
class RankGroup final {
 public:
  // Starts to listen. The transport must outlive the group. InvalidArgument: options that cannot be. Unavailable: it cannot listen.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(RankGroupOptions options, Transport& transport);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // Other ranks: asks rank 0 for a group and waits for it. The agreement of `request` is the options'.
  absl::StatusOr<Formed> Join(JoinRequest request);
  // Rank 0: waits until every rank has asked for a group.
  absl::StatusOr<Gathered> Gather();
  // Rank 0, after Gather: the group stands, training goes on at `step`. Ranks that were lost meanwhile show in the next call.
  void Form(int64_t step);
  // Rank 0: no group is needed any more, the training is over at `step`. Ranks that join are told so.
  void Finish(int64_t step);
  // Other ranks: only rank 0 is needed any more.
  void FinishHere();

  // The plan must be the same on all ranks, but for schedules; it must outlive Wait.
  void Begin(Operation& operation, OperationId id);
  void Contribute(size_t bucket, BucketValues values);
  // Returns when the operation is done here and nothing of the caller's memory is on its way any more, or else with an error; either way
  // the operation's memory is free.
  absl::StatusOr<Waited> Wait();

  // Rank 0, between two operations: no all-reduce of `step` or a later one is done. The group finishes.
  void End(int64_t step);
  // Rank 0, after Finish: the others may end. Returns when they have, or are lost for longer than timeouts.silence.
  void Release();
  // Other ranks: waits for Release.
  absl::Status AwaitRelease();
  // Leaves the group, whose next one begins from a checkpoint if that is asked for. Returns Aborted.
  absl::Status Leave(const std::string& reason);

  // This rank is at work though it sends nothing: others go on waiting for it. Any thread; cheap.
  void ShowActivity();
  // Says goodbye. Returns when that is sent, or after a short deadline.
  void Done();

  BorrowCount& borrowed();
  int ranks() const;
  // Any thread.
  StreamTraffic traffic() const;

 private:
  RankGroup(RankGroupOptions options, Transport& transport);
  bool IsStopping() const;
  absl::Status AwaitMembers(const std::function<bool()>& reached, std::string_view what);
  absl::StatusOr<Waited> AwaitOperation();
  void TellWait(WaitNotice& notice, const std::string& what) const;

  const std::shared_ptr<GroupCore> core_;
  std::unique_ptr<Listener> listener_;
  bool formed_before_ = false;
  std::thread tender_;
};

}  // namespace trainyard::engine
