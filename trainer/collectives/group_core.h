// The state of a group that the transport's threads and the step loop share: streams to peers, who
// has joined, the operation in hand.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"
#include "trainer/base/worker_pace.h"
#include "trainer/collectives/group_options.h"
#include "trainer/collectives/join_request.h"
#include "trainer/collectives/operation.h"
#include "trainer/transport/awaited_hellos.h"
#include "trainer/transport/borrow_count.h"
#include "trainer/transport/dialled_link.h"
#include "trainer/transport/refusal_log.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Thread-safe. Every event is a change of state under one lock; every wait is for a condition on
// that state. Additions are made without the lock, by the thread that brings a bucket's last
// missing part.
//
//   apart --StartJoining--> joining --form--> formed --a peer is lost, leaves, disagrees--> apart
//
// A rank dials the lower ones. It dials rank 0 to join, and that stream becomes the group's. It
// dials its other peers when the group has formed. A stream belongs to one group; with the group it
// ends.
class GroupCore final : public StreamHandler, public std::enable_shared_from_this<GroupCore> {
 public:
  GroupCore(RankGroupOptions options, Transport& transport);

  void OnOpened(const std::shared_ptr<Stream>& stream) override;
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override;
  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override;
  // Logs few lines, whatever strangers do.
  void OnTurnedAway(const std::string& peer, const absl::Status& why) override;

  // Dials what is due, sends heartbeats, drops streams that do not say who they are. Returns when
  // there is more to do.
  absl::Time Tend(absl::Time now);
  // Waits until `next`, or until there is more to do; false after Shut.
  bool AwaitTend(absl::Time next);
  // Ends every stream for good. `goodbye` is said first.
  void Shut(bool goodbye);
  bool AwaitShut(absl::Time deadline);

  // Rank 0 waits for the others, which ask it with `request`.
  void StartJoining(const JoinRequest& request);
  Gathered TellGathered() const;
  void Form(const Formed& formed);
  void Finish(int64_t step);
  void FinishHere();
  void Leave(const std::string& reason);
  void End(int64_t step);
  void Release();
  // Other ranks: to rank 0, once on a stream. False: there is none.
  bool SayGoodbye();

  void Begin(Operation& operation, OperationId id);
  void Contribute(size_t bucket, BucketValues values);
  // Goes on with what has come, where streams can be polled. None is where the ranks may be more
  // than the processors: whoever waits leaves its processor to the others.
  void Poll() { PollAll(PolledStreams()); }
  // Rank 0: the same of an operation that gathers the optimizer's slots. All others are asked for
  // theirs. False: no group has formed.
  bool BeginAsking(Operation& operation, int64_t step);
  // Forgets the operation once no thread works on it.
  void Abandon();

  // Each waits for at most `at_most` and returns whether it is so, also early where the group is no
  // more.
  bool AwaitFormed(absl::Duration at_most);
  // Polls for a moment first: what comes soon then wakes no thread.
  bool AwaitOperation(absl::Duration at_most);
  bool AwaitReleased(absl::Duration at_most);
  // Other ranks: whether rank 0 has said goodbye.
  bool AwaitGoodbye(absl::Duration at_most);
  // Other ranks: whether the group has broken up, or rank 0 has said goodbye.
  bool AwaitApart(absl::Duration at_most);
  bool AwaitAllJoined(absl::Duration at_most);
  // Rank 0: whether every rank has gone, or has been lost for `patience`.
  bool AwaitAllGone(absl::Duration patience, absl::Duration at_most);

  // Why the group is no more (Aborted) or cannot be (other errors); OK: it stands, or forms.
  absl::Status status() const;
  Formed formed() const;
  bool ended() const;
  bool released() const;
  bool operation_done() const;
  // Rank 0: of each rank that has told it, this one too.
  std::vector<WorkerPace> paces() const;
  // When a rank that is waited for last showed that it is at work, or a part came from it.
  absl::Time progress_at() const;
  // Names the ranks and buckets that the operation waits for.
  std::string DescribeAwaited() const;
  // "all-reduce of step 7: values for rank 1, not read yet", "step 7: …" where the operation is
  // over; "": none.
  std::string DescribeLoans(const BorrowCount& loans) const;
  // "rank 2 (host:port): connection refused", for each that is not in the group.
  std::string DescribeAbsent() const;
  StreamTraffic traffic() const;

  // To be told to rank 0.
  void TellPace(WorkerPace pace);
  void ShowActivity() { activity_.fetch_add(1, std::memory_order_relaxed); }
  const RankGroupOptions& options() const { return options_; }
  std::string own_name() const { return "rank " + std::to_string(options_.rank); }
  BorrowCount& borrowed() { return borrowed_; }
  BorrowCount& results() { return results_; }
  // Peers that have read something say so at once.
  void HastenReturns();
  int ranks() const { return static_cast<int>(options_.hosts.size()); }
  // Of the group that stands.
  RankLayout layout() const;
  bool one_device_kind() const;

 private:
  enum class State : uint8_t { kApart, kJoining, kFormed };
  struct Peer {
    Peer(int its_rank, absl::Duration heartbeat, absl::Duration answer) : rank(its_rank), link(heartbeat, answer) {}
    int rank;
    DialledLink link;                // where this rank dials it
    std::shared_ptr<Stream> stream;  // of the group
    std::vector<Record> waiting;     // until there is one
    std::shared_ptr<Stream> asking;  // it has joined, and is not in a group yet
    uint32_t asks_for = 0;           // 0: for a new group
    JoinRequest request;
    uint64_t activity = 0;
    std::optional<WorkerPace> pace;
    absl::Time lost_at = absl::InfinitePast();
    bool said_goodbye = false;
    bool told_goodbye = false;
  };
  // Work to be done once the lock is free.
  struct Out {
    std::vector<std::pair<std::shared_ptr<Stream>, std::vector<Record>>> sends;
    std::vector<std::pair<std::shared_ptr<Stream>, absl::Status>> closes;
    std::vector<Record> dropped;  // their payloads' owners may be streams
    bool work = false;            // buckets may be able to go on
  };
  void Do(Out out);
  std::vector<std::shared_ptr<Stream>> Streams() const;
  std::vector<std::shared_ptr<Stream>> PolledStreams() const;
  // Whether the values of the ranks of this machine do not fit the cache that they share: then what
  // is read again has left it by that time.
  bool IsPastCaches(const Operation& operation) const;
  // Whether any can be polled.
  static bool PollAll(std::span<const std::shared_ptr<Stream>> streams);
  bool PollUntilOver();
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !status_.ok() || operation_ == nullptr || operation_->done() || IsPastEnd(operation_->id());
  }
  // Goes on with every bucket that can.
  void Work();
  // Writes down what was taken first, or is done.
  void ProfileBegin(const Operation::Taken& taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ProfileEnd(const Operation& operation, size_t bucket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Record Control(WireOp op, int64_t step = 0) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record JoinRecord() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record FormRecord() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rank 0: by the names of nodes that all ranks have told.
  int PerNode() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rank 0: by the kinds of devices that all ranks have told.
  bool OneDeviceKind() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Name(int rank) const;
  Peer* PeerOf(const Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendTo(Peer& peer, Record record, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ToAll(WireOp op, int64_t step, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Attach(Peer& peer, std::shared_ptr<Stream> stream, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status HandleFirst(const std::shared_ptr<Stream>& stream, const Record& record, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Handle(Peer& peer, const std::shared_ptr<Stream>& stream, Record& record, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnForm(Peer& peer, const std::shared_ptr<Stream>& stream, const Record& record, Out& out)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnPace(Peer& peer, const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Refuses a part of an operation before the current one, or of another group.
  absl::Status RefuseEarlier(int rank, const WireHeader& header) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record PartRecord(WireOp op, OperationId id, size_t bucket, PartToSend part) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rank 0 asks for this rank's part of the optimizer's slots.
  absl::Status OnAsk(Peer& peer, const WireHeader& header, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnPart(Peer& peer, Record& record, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rank 0: answers a rank that has asked, if the training is over.
  void TellFinished(Peer& peer, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that have asked for the group that stands now.
  void TakeAsking(Peer& peer, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A peer's stream has ended: the group breaks, if it needs the peer.
  void OnLost(Peer& peer, const absl::Status& status, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing can be cured by another group.
  void Fail(const absl::Status& status, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The group is no more; every peer is told why.
  void Break(const absl::Status& why, Out& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Rank 0 has ended the training before this operation.
  bool IsPastEnd(OperationId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_at_ >= 0 && id.kind == OperationId::Kind::kReduce && id.step >= ended_at_;
  }
  bool IsNeeded(const Peer& peer) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RankGroupOptions options_;
  Transport& transport_;
  BorrowCount borrowed_;
  BorrowCount results_;
  std::atomic<uint64_t> activity_ = 0;

  mutable Mutex mutex_;
  std::map<int, Peer> peers_ ABSL_GUARDED_BY(mutex_);  // by rank
  AwaitedHellos hellos_ ABSL_GUARDED_BY(mutex_);
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;  // that have not closed
  State state_ ABSL_GUARDED_BY(mutex_) = State::kApart;
  uint32_t group_ ABSL_GUARDED_BY(mutex_) = 0;
  Formed formed_ ABSL_GUARDED_BY(mutex_);
  int per_node_ ABSL_GUARDED_BY(mutex_) = 1;              // RankLayout::per_node, as rank 0 has told it
  bool one_device_kind_ ABSL_GUARDED_BY(mutex_) = false;  // likewise
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  JoinRequest request_ ABSL_GUARDED_BY(mutex_);
  Operation* operation_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<int64_t> begun_at_ ABSL_GUARDED_BY(mutex_);              // by bucket, of an operation that is profiled; else empty
  OperationId last_ ABSL_GUARDED_BY(mutex_);                           // the newest that was begun in this group
  std::vector<std::pair<int, Record>> early_ ABSL_GUARDED_BY(mutex_);  // of operations to come; the streams' windows bound them
  absl::Time progress_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t relayed_ ABSL_GUARDED_BY(mutex_) = 0;      // activity of ranks that this one waits for
  int64_t finished_at_ ABSL_GUARDED_BY(mutex_) = -1;  // rank 0
  absl::Time finished_since_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;  // only rank 0 is needed
  int64_t ended_at_ ABSL_GUARDED_BY(mutex_) = -1;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_heartbeat_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::optional<WorkerPace> pace_ ABSL_GUARDED_BY(mutex_);  // this rank's
  bool tend_ ABSL_GUARDED_BY(mutex_) = false;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  StreamTraffic traffic_ ABSL_GUARDED_BY(mutex_);  // of streams that have ended

  RefusalLog refusals_;
};

}  // namespace trainyard::engine
