// All trainers of a job as one group of ranks that add and hand on values together, without servers
// (docs/collectives.md).
//
// A group forms at rank 0. Every other rank joins there. Rank 0 names the group and the step at
// which the training goes on. Then ranks open streams to the peers that their schedules need. A
// group lasts until a rank is lost, leaves or disagrees. Then every call returns Aborted on every
// rank. The next group is formed by Join (rank 0: Gather and Form).
//
// An operation: Begin, Contribute for each bucket, Wait. All ranks do the same ones in the same
// order.
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
#include "trainer/base/worker_pace.h"
#include "trainer/collectives/group_options.h"
#include "trainer/collectives/join_request.h"
#include "trainer/collectives/operation.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

class GroupCore;

// Used from one thread (the step loop's); Contribute may come from another, never at the same time
// as another call. Owns one thread; I/O and additions happen on the transport's threads too. Errors
// name rank, operation, bucket and step.
//   Aborted: the group is no more; the next one may form. DeadlineExceeded: what was waited for. Cancelled: stopping.
//   FailedPrecondition, InvalidArgument: a rank disagrees; it cannot be cured by a restart.
class RankGroup final {
 public:
  // Starts to listen. The transport must outlive the group. InvalidArgument: options that cannot
  // be. Unavailable: it cannot listen.
  static absl::StatusOr<std::unique_ptr<RankGroup>> Create(RankGroupOptions options, Transport& transport);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // Other ranks: asks rank 0 for a group and waits for it. Agreement, node and kind of device of
  // `request` are the options'.
  absl::StatusOr<Formed> Join(JoinRequest request);
  // Rank 0: waits until every rank has asked for a group.
  absl::StatusOr<Gathered> Gather();
  // Rank 0, after Gather: the group stands, training goes on at `formed.step`. Ranks that were lost
  // meanwhile show in the next call.
  void Form(const Formed& formed);
  // Rank 0: no group is needed any more, the training is over at `step`. Ranks that join are told
  // so.
  void Finish(int64_t step);
  // Other ranks: only rank 0 is needed any more.
  void FinishHere();

  // The plan must be the same on all ranks, but for schedules; it must outlive Wait.
  void Begin(Operation& operation, OperationId id);
  void Contribute(size_t bucket, BucketValues values);
  // Between the two: goes on with what other ranks have sent, in place of threads that would have
  // to be woken for it. Cheap.
  void Poll();
  // Returns when the operation is done here and nothing of the caller's memory is on its way any
  // more, or else with an error. Either way the operation's memory is free, but for results that
  // hold results().
  absl::StatusOr<Waited> Wait();
  // Returns when all ranks have read the results that hold results(), or with the errors of Wait.
  absl::Status AwaitReaders();

  // Rank 0, between step - 1 and `step`: begins an operation that gathers what
  // RankGroupOptions::on_ask gives on the other ranks. They do nothing for it; none does a step
  // meanwhile, since no step is done without rank 0. False: no group has formed.
  bool BeginAsking(Operation& operation, int64_t step);
  // Other ranks: waits until rank 0 needs nothing of them any more, at most so long.
  void AwaitApart(absl::Duration at_most);

  // Rank 0, between two operations: no all-reduce of `step` or a later one is done. The group
  // finishes.
  void End(int64_t step);
  // Rank 0, after Finish: the others may end. Returns when they have said goodbye, or are lost for
  // longer than timeouts.silence.
  void Release();
  // Other ranks: waits for Release.
  absl::Status AwaitRelease();
  // Leaves the group, whose next one begins from a checkpoint if that is asked for. Returns
  // Aborted.
  absl::Status Leave(const std::string& reason);

  // This rank is at work though it sends nothing: others go on waiting for it. Any thread; cheap.
  void ShowActivity();
  // How long this rank takes for a step by itself: rank 0 hears it with the next heartbeat. Cheap.
  void TellPace(WorkerPace pace);
  // Rank 0: of each rank that has told it.
  std::vector<WorkerPace> paces() const;
  // Says goodbye. Rank 0: returns when that is sent, or after a short deadline. Other ranks call it
  // after AwaitRelease. It returns there when rank 0 has said goodbye too, so that a rank 0 that is
  // lost before finds all of them. It also returns when rank 0 is away for timeouts.silence, or
  // this rank shall stop.
  void Done();

  BorrowCount& borrowed();
  // Of operations whose results may rest where they are while other ranks read them (exchange.h).
  BorrowCount& results();
  int ranks() const;
  // Of the group that was formed last: which ranks share a node.
  RankLayout layout() const;
  // Likewise: all ranks have told one kind of device, so that their devices round alike.
  bool one_device_kind() const;
  // Any thread.
  StreamTraffic traffic() const;

 private:
  RankGroup(RankGroupOptions options, Transport& transport);
  bool IsStopping() const;
  absl::Status AwaitMembers(const std::function<bool()>& reached, std::string_view what);
  absl::StatusOr<Waited> AwaitOperation();
  // Likewise; `done`: the operation is, and `loans` alone are awaited.
  absl::StatusOr<Waited> Await(bool done, BorrowCount& loans);
  // For kLookPeriod at most.
  bool AwaitNone(BorrowCount& loans);
  void AwaitGoodbye();

  const std::shared_ptr<GroupCore> core_;
  std::unique_ptr<Listener> listener_;
  bool formed_before_ = false;
  std::thread tender_;
};

}  // namespace trainyard::engine
