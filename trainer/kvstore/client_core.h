// The state of a client that the transport's threads and the step loop share: streams to servers,
// what was pushed, what was answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
#include "trainer/kvstore/buffer_pool.h"
#include "trainer/kvstore/client_options.h"
#include "trainer/kvstore/gradient_compressor.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/line_watch.h"
#include "trainer/kvstore/part_pull.h"
#include "trainer/kvstore/part_record.h"
#include "trainer/kvstore/pending_pushes.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/server_link.h"
#include "trainer/transport/borrow_count.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Goals that a worker waits for: every server (of kReleased, and in sync mode of kNobodyTrains:
// one) tells it.
enum class KvGoal : uint8_t { kAllUp, kAllReady, kPulled, kNobodyTrains, kAllEnded, kAllReleased, kReleased };

// Of the step that a worker waits for. kPastEnd: it is over, and the chief has ended the training:
// in sync mode before this step, which was not applied anywhere.
enum class StepState : uint8_t { kUnderWay, kDone, kPastEnd };

// Thread-safe. Every event is a change of state under one lock; every wait is for a condition on
// that state. Its parts are objects of their own: links (server_link.h), pushes (pending_pushes.h),
// a pull (part_pull.h).
//
// Life of a link: down → (dial, hello) → up (welcome) → down … A link that is up is ready or empty;
// the chief fills empty ones. Pushes that are not answered when a link comes up and is ready are
// sent (again) then; a push is sent once per stream. In sync mode that holds while the server is on
// the line (line_watch.h) that this worker trains on; else the worker goes back (Forget, Judge,
// Adopt).
class KvClientCore final : public StreamHandler, public std::enable_shared_from_this<KvClientCore> {
 public:
  KvClientCore(KvClientOptions options, Transport& transport);

  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override;
  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override;

  // Dials what is down and due, sends heartbeats. Returns when there is more to do.
  absl::Time Tend(absl::Time now);
  // Waits until `next`, or until a stream was lost; false after Shut.
  bool AwaitTend(absl::Time next);
  // Ends every stream for good: no redialling. `goodbye` is sent first where the link is up.
  void Shut(bool goodbye);
  bool AwaitShut(absl::Time deadline);

  // No gradient: the worker had no examples in this step.
  void Push(int key, const std::optional<GradientView>& gradient, int64_t step);
  // Sends the small records that wait for company.
  void Flush();
  void Leave();
  // Chief: tells every server, those that come (back) later too, that the training ends at `step`.
  void End(int64_t step);
  // A server has said so.
  bool ended() const;
  void ShowActivity() { activity_.fetch_add(1, std::memory_order_relaxed); }

  // To be told to the chief.
  void TellPace(WorkerPace pace);
  // Chief: of each worker that has told it.
  std::vector<WorkerPace> paces() const;

  // This worker begins at the values that it has pulled: rounds those that every answer rounds too.
  // Nothing is left of gradients that it has pushed before.
  void BeginFrom(ParameterSet& parameters);
  // The values of an answer, written where they belong.
  void Store(const ArrivedValues& answer, ParameterSet& parameters) const;
  // Waits until something arrived (then takes it), nothing is outstanding, an empty server is there
  // to fill (chief), the client is broken, or for `at_most`. The caller looks up which.
  std::vector<ArrivedValues> AwaitAnswers(absl::Duration at_most);
  // When every server that owes an answer last said that it holds it back for other workers;
  // infinite past: one did not. Without such a server: when any last said so.
  absl::Time held_back_at() const;
  // Ends the step if every push is answered and every answer was taken; the position moves on when
  // something was pushed.
  StepState FinishStep(bool pushed);
  // "'conv1/kernel' of step 7 from server 0 (host:port)": the first one that is missing.
  std::string DescribeOutstanding() const;

  // Starts a pull of all parts (with slots) from every server; the values are written into `into`
  // as they arrive.
  void StartPull(TrainingState* into, bool with_slots);
  PartPull::Steps EndPull();

  // Sync. Forgets what was pushed and not answered, what of it is still queued, and what the chief
  // has told of the training's end.
  void Forget();
  // A verdict on the servers, for a worker that has pushed nothing to them.
  LineView Judge() const;
  // This worker trains on the line from `step` on.
  void Adopt(int64_t line, int64_t step);
  // The line that this worker trains on; 0: none yet.
  int64_t line() const;
  // Why this worker must go back; "": it need not.
  std::string LossOfLine() const;
  // "server 1 was restarted", …: what Judge found wrong.
  std::string DescribeLoss() const;
  // The furthest round that any server has told of.
  int64_t furthest() const;
  // This worker cannot go on from the line, and tells every server that is on it why. The chief
  // just notes it.
  void Refuse(int64_t line, const std::string& reason);
  // Chief: every server that has values forgets them.
  void ResetServers();
  // Waits until a server tells something, a link changes, the client is broken, or for `at_most`.
  // `seen`: changes() before the caller looked.
  void AwaitChange(int64_t seen, absl::Duration at_most);
  int64_t changes() const;
  // Chief: the result is safe. Others hear it from their servers.
  void Release();
  bool released() const;

  // Waits until every server has reached the goal (true), an empty server is there to fill (chief),
  // the client is broken, or for `at_most`.
  bool Await(KvGoal goal, absl::Duration at_most);

  // Servers that are up and empty: for the chief to fill.
  std::vector<int> EmptyServers() const;
  // Sends the state from its own memory, which is kept until then.
  void Fill(int server, const std::shared_ptr<const TrainingState>& state, int64_t step, const KvLine& line);
  // Async: servers that were filled, after a loss, with values of an earlier step than `step`; each
  // once.
  std::vector<int> TakeServersBehind(int64_t step);
  // Sends them the values, of `step`, from their own memory, which is kept until then.
  void SendNewer(int server, const std::shared_ptr<const ParameterSet>& values, int64_t step);

  int ServerOf(int part) const { return placement_.parts[part].server; }

  absl::Status error() const;
  // "server 1 (host:port): connection refused", for each that is not ready.
  std::string DescribeNotReady() const;
  // "gradients for server 1 (host:port), not read yet"; "": none.
  std::string DescribeLoans() const;
  // As the ready servers know it: the largest global step, and this worker's next step (-1: none
  // can tell).
  int64_t global_step() const;
  // Async: as a server that is ready has told it last; -1: none has.
  int64_t planned_steps() const;
  int64_t worker_step() const;
  // Async: a server knows this worker's place from this worker, or from its process before.
  bool worker_known() const;
  bool any_ready() const;
  // Servers that were restarted since the last call.
  int TakeRefilled();
  int64_t position() const;
  void SetPosition(int64_t step);
  StreamTraffic traffic() const;

  const KvClientOptions& options() const { return options_; }
  const std::string& name() const { return name_; }
  BorrowCount& borrowed() { return borrowed_; }

 private:
  // Records by stream; sent once the lock is free.
  using Sends = std::vector<std::pair<std::shared_ptr<Stream>, std::vector<Record>>>;
  static void Send(Sends sends);
  // A record without a payload to each link that is wanted.
  Sends ToEach(WireOp op, int64_t step, const std::function<bool(const ServerLink&)>& wanted) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record Control(WireOp op, const ServerLink& link, int64_t step = 0, uint32_t flags = 0) const {
    return records_.Control(op, link.incarnation(), step, flags);
  }

  absl::Status Handle(ServerLink& link, Record& record, std::vector<Record>& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnState(ServerLink& link, const Record& record, std::vector<Record>& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A server has values, for the first time or again: it hears what this worker has pushed and
  // asked for.
  void CatchUp(ServerLink& link, std::vector<Record>& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnParameters(ServerLink& link, Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnPace(const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnValues(ServerLink& link, const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The gradient as it is, or the rows that it touches where those are fewer bytes.
  Record PushRecord(const ServerLink& link, int part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part's values in `set`, which `owner` keeps until they are sent; slot 0 is the parameter
  // itself.
  Record ValuesRecord(WireOp op, const ServerLink& link, int part, size_t slot, const ParameterSet& set, std::shared_ptr<const void> owner,
                      int64_t step) const;
  Record PullRecord(const ServerLink& link) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Record Hello(const ServerLink& link) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool sync() const { return options_.mode == KvMode::kSync; }
  bool IsPastEnd(int64_t step) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sync() && ended_at_ >= 0 && step >= ended_at_; }
  std::vector<ServerView> Views() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsLineLost() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return line_ != 0 && IsLost(Views(), line_); }
  bool HasEmpty() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Reached(KvGoal goal) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ServerLink* LinkOf(const Stream* stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KvClientOptions options_;
  const std::string name_;
  const Placement placement_;
  const PartRecords records_;
  KvAgreement agreement_;
  Transport& transport_;
  BorrowCount borrowed_;
  BufferPool row_buffers_;
  GradientCompressor compressor_;  // of one thread at a time, as Push is
  std::atomic<uint64_t> activity_ = 0;

  mutable Mutex mutex_;
  std::vector<ServerLink> links_ ABSL_GUARDED_BY(mutex_);
  PendingPushes pushes_ ABSL_GUARDED_BY(mutex_);
  PartPull pull_ ABSL_GUARDED_BY(mutex_);
  int64_t line_ ABSL_GUARDED_BY(mutex_) = 0;     // sync: that this worker trains on; 0: none yet
  int64_t refused_ ABSL_GUARDED_BY(mutex_) = 0;  // sync: that this worker cannot go on from, because of
  std::string refused_because_ ABSL_GUARDED_BY(mutex_);
  int64_t furthest_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t position_ ABSL_GUARDED_BY(mutex_) = -1;            // the next or current step; -1: not known yet
  std::optional<WorkerPace> pace_ ABSL_GUARDED_BY(mutex_);   // of this worker; the chief has it in paces_
  std::map<int, WorkerPace> paces_ ABSL_GUARDED_BY(mutex_);  // chief: by worker
  int refilled_ ABSL_GUARDED_BY(mutex_) = 0;
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t end_step_ ABSL_GUARDED_BY(mutex_) = -1;  // chief: to be told to every server
  int64_t ended_at_ ABSL_GUARDED_BY(mutex_) = -1;  // as a server has told
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  bool tend_ ABSL_GUARDED_BY(mutex_) = false;  // a stream was lost since the last Tend
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  StreamTraffic traffic_ ABSL_GUARDED_BY(mutex_);  // of streams that have ended
};

}  // namespace trainyard::engine
