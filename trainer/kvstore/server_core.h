// The state of a server that the transport's threads and Run share: its members, the parts, and
// where the training stands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/bounded_lines.h"
#include "trainer/base/mutex.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/members.h"
#include "trainer/kvstore/part_record.h"
#include "trainer/kvstore/part_store.h"
#include "trainer/kvstore/placement.h"
#include "trainer/kvstore/server_options.h"
#include "trainer/transport/refusal_log.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Thread-safe. Lives until its streams have ended.
//
// The members and what the server tells are under one lock, mutex_; the parts have locks of their
// own (part_store.h). Every record that is at work on the parts holds era_ for reading; a hello and
// a reset have the parts alone.
class KvServerCore final : public StreamHandler, public std::enable_shared_from_this<KvServerCore> {
 public:
  KvServerCore(KvServerOptions options, std::unique_ptr<Optimizer> optimizer);

  void OnOpened(const std::shared_ptr<Stream>& stream) override;
  void OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) override;
  void OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) override;
  void OnTurnedAway(const std::string& peer, const absl::Status& why) override;

  // KvServer's.
  absl::Status Run();
  void Stop();
  KvServerStats stats() const;

 private:
  // Answers, by the stream that they go to.
  using Outbox = std::map<std::shared_ptr<Stream>, std::vector<Record>>;
  static void Send(Outbox outbox);
  static uint32_t NewIncarnation();

  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || members_.AllDone(); }
  bool sync() const { return options_.mode == KvMode::kSync; }
  absl::StatusOr<Peer> PeerOf(const std::shared_ptr<Stream>& stream, const WireHeader& header);
  absl::Status CheckSender(const WireHeader& header, const Peer& peer) const;
  // Of a stream that a newer one of the same worker has replaced, or, if it is about the parts, of
  // an incarnation before the last reset.
  bool IsLate(const Peer& peer, const WireHeader& header) ABSL_SHARED_LOCKS_REQUIRED(era_);
  // While no other record is at work on the parts.
  absl::Status HandleAlone(const std::shared_ptr<Stream>& stream, const Record& record, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(era_);
  absl::Status Handle(const std::shared_ptr<Stream>& stream, Record& record, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);

  static constexpr uint64_t kLastStep = uint64_t{1} << 53;

  // server_membership.cc: the members.
  absl::Status OnHello(const std::shared_ptr<Stream>& stream, const Record& record, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(era_);
  // Those that are here must have one vocabulary, and once there are parameters, the chief's.
  absl::Status CheckVocabulary(int worker, const std::string& vocabulary) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same of the settings of their job files. Those of the optimizer must be this server's.
  absl::Status CheckSettings(int worker, const JobSettings& settings) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OnLeave(const Peer& peer, bool done, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  void Forget(const std::shared_ptr<Stream>& stream, const absl::Status& status);
  Record StateFor(WireOp op, int worker) ABSL_SHARED_LOCKS_REQUIRED(era_) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Async: the global step at which all workers have ended; -1: there are no values yet.
  int64_t PlannedSteps(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellState(Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The bytes that all streams together may hold here are bounded, whatever their number.
  void ShareWindow();
  size_t held_bytes() const;
  // Counts it, and says so in few lines.
  void TellRefusal(const Stream& stream, const absl::Status& status);
  // The layers below end what is no stream of this job's, before its hello: a bad header, a message
  // too long, no proof of the key.
  void TellUnfit(const Stream& stream, const absl::Status& status);
  // Ends streams on which nothing moves, and those that do not say who they are.
  void EndSilentStreams();
  // A round that waits too long is an error for everyone, which names those who are missing.
  // Workers that wait for another one are told that they do.
  void CheckRounds();
  // Workers that have done all steps wait for the chief to make the result safe: as long as it is
  // there and at work.
  void CheckRelease() ABSL_SHARED_LOCKS_REQUIRED(era_);

  // server_parts.cc: what is done with the parts.
  absl::Status OnPush(const Peer& peer, bool ready, Record& record, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  // Of a push, whose key is checked.
  absl::Status CheckAddends(const WireHeader& header) const;
  absl::Status OnPull(const Peer& peer, bool ready, const WireHeader& header, std::vector<Record>& answers)
      ABSL_SHARED_LOCKS_REQUIRED(era_);
  absl::Status OnAssign(const Peer& peer, bool ready, const Record& record);
  absl::Status OnReady(const Peer& peer, bool ready, const Record& record, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  absl::Status OnNewer(const Peer& peer, bool ready, const Record& record) ABSL_SHARED_LOCKS_REQUIRED(era_);
  absl::Status OnReset(const Peer& peer, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(era_);
  absl::Status OnTorn(const Peer& peer, const Record& record, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  absl::Status OnRelease(const Peer& peer, bool ready, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  // To the chief.
  absl::Status OnPace(const Peer& peer, const Record& record, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  absl::Status OnEnd(const Peer& peer, bool ready, const WireHeader& header, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_);
  // Read when its turn to be sent has come: however many wait, they hold no memory, and
  // asynchronous values are the newest.
  Record LateRecord(WireOp op, int part, int slot) ABSL_SHARED_LOCKS_REQUIRED(era_);
  Record AnswerRecord(const PushAnswer& answer, bool rows) const ABSL_SHARED_LOCKS_REQUIRED(era_);
  // To the connected workers of the answer; the others ask again when they come back.
  void Address(const PushAnswer& answer, Outbox& outbox) ABSL_SHARED_LOCKS_REQUIRED(era_) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const KvServerOptions options_;
  const std::string name_;
  const Placement placement_;
  const PartRecords records_;
  // Taken before mutex_.
  absl::Mutex era_ ABSL_ACQUIRED_BEFORE(mutex_);
  uint32_t incarnation_ ABSL_GUARDED_BY(era_);
  const KvAgreement agreement_;
  Clock& clock_;
  const std::unique_ptr<PartStore> store_;
  RefusalLog refusals_;

  // Where the training stands, as KvServerState tells it; forgotten by a reset.
  struct Training {
    bool ready = false;
    size_t chief = 0;        // where ready: the worker who made it so,
    std::string vocabulary;  // and its vocabulary
    JobSettings settings;    // and its job file's settings
    int64_t line = 0;
    int64_t line_step = 0;
    InputOrigin origin;
    std::string torn;
    bool released = false;
    absl::Time waits_for_release = absl::InfiniteFuture();  // since when a worker has done all steps
    int64_t end_step = -1;                                  // the chief has ended the training at this step
  };

  mutable Mutex mutex_;
  Members members_ ABSL_GUARDED_BY(mutex_);
  Training training_ ABSL_GUARDED_BY(mutex_);
  int64_t states_told_ ABSL_GUARDED_BY(mutex_) = 0;
  int told_training_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t told_planned_ ABSL_GUARDED_BY(mutex_) = -1;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  BoundedLines losses_ ABSL_GUARDED_BY(mutex_);  // of workers
};

}  // namespace trainyard::engine
