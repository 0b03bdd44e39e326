// The state of a client that the transport's threads and the step loop share: lanes to servers, what was pushed, what was answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/kvstore/borrow_count.h"
#include "trainer/kvstore/buffer_pool.h"
#include "trainer/kvstore/client.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/row_payload.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Thread-safe. Everything that happens is a change of state under one lock; whoever waits, waits for a condition on it.
//
// Life of a link: down → (dial, hello) → up (welcome) → down … A link that is up is ready or empty; the chief fills empty ones. Pushes that
// are not answered when a link comes up and is ready are sent (again) then; a push is sent once per lane.
class KvClientCore final : public LaneHandler, public std::enable_shared_from_this<KvClientCore> {
 public:
  KvClientCore(KvClientOptions options, Transport& transport);

  void OnMessage(const std::shared_ptr<Lane>& lane, std::span<Record> records) override;
  void OnClosed(const std::shared_ptr<Lane>& lane, const absl::Status& status) override;

  // Dials what is down and due, sends heartbeats. Returns when there is more to do.
  absl::Time Tend(absl::Time now);
  // Waits until `next`, or until a lane was lost; false after Shut.
  bool AwaitTend(absl::Time next);
  // Ends every lane for good: no redialling. `goodbye` is sent first where the link is up.
  void Shut(bool goodbye);
  bool AwaitShut(absl::Time deadline);

  void Push(int key, const GradientView& gradient, int64_t step);
  // Sends the small records that wait for company.
  void Flush();
  void Leave();
  // Chief: tells every server, those that come (back) later too, that the training ends at `step`.
  void End(int64_t step);
  // A server has said so.
  bool ended() const;
  void ShowActivity() { activity_.fetch_add(1, std::memory_order_relaxed); }

  // Values of a part that have arrived.
  struct Arrived {
    int part;
    int64_t step;  // of the push that this answers
    Payload values;
    std::optional<std::vector<int32_t>> rows;  // ParseRowPayload's, where `values` are changed rows only
  };
  void Store(const Arrived& answer, ParameterSet& parameters) const;
  // Waits until something arrived (then takes it), nothing is outstanding, an empty server is there to fill (chief), the client is broken,
  // or for `at_most`. What it is, the caller looks up.
  std::vector<Arrived> AwaitAnswers(absl::Duration at_most);
  // When every server that owes an answer last said that it holds it back for workers that are at work; infinite past: one did not.
  absl::Time held_back_at() const;
  // Ends the step if every push is answered and every answer was taken; the position moves on when something was pushed. False: not yet.
  bool FinishStep(bool pushed);
  // "'conv1/kernel' of step 7 from server 0 (host:port)": the first one that is missing.
  std::string DescribeOutstanding() const;

  // Starts a pull of all parts (with slots) from every server; the values are written into `into` as they arrive.
  void StartPull(KvState* into, bool with_slots);
  void EndPull();

  // Waits until every server has reached the goal (true), an empty server is there to fill (chief), the client is broken, or the deadline.
  enum class Goal { kAllUp, kAllReady, kPulled, kNobodyTrains, kAllEnded };
  bool Await(Goal goal, absl::Time deadline);

  // Servers that are up and empty: for the chief to fill.
  std::vector<int> EmptyServers() const;
  void Fill(int server, const std::shared_ptr<const KvState>& state, int64_t step);

  absl::Status error() const;
  // "server 1 (host:port): connection refused", for each that is not ready.
  std::string DescribeNotReady() const;
  // As the ready servers know it: the largest global step, and this worker's next step (-1: none can tell).
  int64_t global_step() const;
  int64_t worker_step() const;
  bool any_ready() const;
  // Servers that were restarted since the last call.
  int TakeRefilled();
  int64_t position() const;
  void SetPosition(int64_t step);
  LaneTraffic traffic() const;

  const KvClientOptions& options() const { return options_; }
  const Placement& placement() const { return placement_; }
  const std::string& name() const { return name_; }
  BorrowCount& borrowed() { return borrowed_; }

 private:
  struct Link {
    int server = 0;
    std::shared_ptr<Lane> lane;
    bool up = false;
    bool ready = false;
    bool filling = false;  // the chief has sent everything and waits for the answer
    bool was_ready = false;
    bool lost_state = false;  // it was restarted: what it had answered of this step is gone
    uint32_t incarnation = 0;
    KvServerState state;
    int64_t step = 0;
    absl::Time held_back_at = absl::InfinitePast();
    absl::Time next_dial = absl::InfinitePast();
    absl::Time next_heartbeat = absl::InfiniteFuture();
    absl::Duration backoff;
    std::string last_error = "not answered yet";
    size_t pull_missing = 0;
  };
  struct Pushed {
    GradientView gradient;  // of the part; rows are the tensor's, those that the part has something of
    int64_t step = -1;      // none yet
    bool outstanding = false;
  };

  absl::Status Handle(Link& link, Record& record, std::vector<Record>& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnState(Link& link, const Record& record, std::vector<Record>& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sync: what was pushed for steps that are not done any more needs no answer.
  void DropEndedPushes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsPastEnd(int64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return options_.mode == KvMode::kSync && ended_at_ >= 0 && step >= ended_at_;
  }
  absl::Status OnParameters(Link& link, Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnValues(Link& link, const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<int> FindPart(const Link& link, const WireHeader& header) const;
  WireHeader Header(WireOp op, const Link& link) const;
  Record Control(WireOp op, const Link& link, int64_t step = 0, uint32_t flags = 0) const;
  Record PartRecord(WireOp op, const Link& link, int part, Payload payload, int64_t step) const;
  // The gradient as it is, or the rows that it touches where those are fewer bytes.
  Record PushRecord(const Link& link, int part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PartRows RowsOf(int part) const { return {options_.specs[placement_.parts[part].key], placement_.parts[part]}; }
  Record Hello(const Link& link) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Describe(const Link& link) const;
  void Break(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AskForPull(Link& link, std::vector<Record>& out) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Reached(Goal goal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Link* LinkOf(const Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KvClientOptions options_;
  const std::string name_;
  const uint32_t rank_;
  const Placement placement_;
  const uint64_t fingerprint_;
  size_t trainable_parts_ = 0;
  KvAgreement agreement_;
  Transport& transport_;
  BorrowCount borrowed_;
  BufferPool row_buffers_;
  std::atomic<uint64_t> activity_ = 0;

  mutable absl::Mutex mutex_;
  std::vector<Link> links_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pushed> pushed_ ABSL_GUARDED_BY(mutex_);  // by part
  size_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t unflushed_ ABSL_GUARDED_BY(mutex_) = 0;  // trainable parts pushed since the last Flush
  std::vector<Arrived> arrived_ ABSL_GUARDED_BY(mutex_);
  KvState* pull_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool pull_slots_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t position_ ABSL_GUARDED_BY(mutex_) = -1;  // the next or current step; -1: not known yet
  int refilled_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t end_step_ ABSL_GUARDED_BY(mutex_) = -1;  // chief: to be told to every server
  int64_t ended_at_ ABSL_GUARDED_BY(mutex_) = -1;  // as a server has told
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  bool tend_ ABSL_GUARDED_BY(mutex_) = false;  // a lane was lost since the last Tend
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  LaneTraffic traffic_ ABSL_GUARDED_BY(mutex_);  // of lanes that have ended
};

}  // namespace trainyard::engine
