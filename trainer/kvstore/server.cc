#include "trainer/kvstore/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/awaited_hellos.h"
#include "trainer/kvstore/handshake.h"
#include "trainer/kvstore/part_store.h"
#include "trainer/kvstore/ranks.h"
#include "trainer/kvstore/round_watch.h"
#include "trainer/profile/span_log.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {
namespace {

// Who is at the other end of a lane.
struct Peer {
  std::shared_ptr<Lane> lane;
  int worker = kObserver;
  bool chief = false;
  absl::Time heard;
  int64_t joins = 0;  // Worker::joins when this lane was the newest: tells lanes of one worker apart
};

// What is known of a worker, connected or not.
struct Worker {
  std::shared_ptr<Lane> lane;  // null: not connected
  absl::Time lost_since;       // or since the server has waited for its first lane
  bool member = false;         // one of those that the server was started for, or that came since (an async job that was scaled up)
  bool left = false;
  bool done = false;
  int64_t joins = 0;
  std::string vocabulary;                       // as its last hello told
  uint64_t activity = 0;                        // as its last heartbeat counted it
  absl::Time active_at = absl::InfinitePast();  // when that count last changed
};

// Answers, by the lane that they go to.
using Outbox = std::map<std::shared_ptr<Lane>, std::vector<Record>>;

class KvServerCore final : public LaneHandler {
 public:
  KvServerCore(KvServerOptions options, std::unique_ptr<Optimizer> optimizer)
      : options_(std::move(options)),
        name_(fmt::format("server {}", options_.server)),
        placement_(PlaceParameters(options_.specs, options_.servers)),
        fingerprint_(FingerprintOf(options_.specs)),
        incarnation_(std::random_device{}() | 1U),
        agreement_(MakeAgreement(options_.specs)),
        clock_(*options_.clock),
        awaited_hellos_(options_.hello_deadline),
        workers_(PartStore::Places(options_.mode, options_.workers)) {
    agreement_.mode = options_.mode;
    agreement_.workers = options_.workers;
    agreement_.servers = options_.servers;
    agreement_.server = options_.server;
    agreement_.placement = placement_.hash;
    agreement_.slots = optimizer->slot_names();
    store_ = std::make_unique<PartStore>(options_.specs, placement_, options_.server, options_.mode, options_.workers, std::move(optimizer),
                                         options_.optimizer, clock_);
    absl::MutexLock lock(&mutex_);
    for (int i = 0; i < options_.workers; ++i) {
      workers_[i].member = true;
      workers_[i].lost_since = absl::Now();
    }
    last_change_ = absl::Now();
  }

  void OnOpened(const std::shared_ptr<Lane>& lane) override {
    absl::MutexLock lock(&mutex_);
    awaited_hellos_.Opened(lane, clock_.Now());
  }

  void OnMessage(const std::shared_ptr<Lane>& lane, std::span<Record> records) override {
    Outbox outbox;
    absl::Status status;
    int pulls = 0;  // their answers are much longer than they are
    for (Record& record : records) {
      if (record.header.op == WireOp::kPull && ++pulls > 1) {
        status = absl::InvalidArgumentError("more than one 'pull' in a message");
      } else {
        status = Handle(lane, record, outbox);
      }
      if (!status.ok()) break;
    }
    for (auto& [to, answers] : outbox) to->Send(std::move(answers));
    if (status.ok()) return;
    spdlog::warn("{} refuses {}: {}", name_, lane->peer(), std::string(status.message()));
    lane->Close(WithContext(status, name_));
  }

  void OnClosed(const std::shared_ptr<Lane>& lane, const absl::Status& status) override {
    absl::MutexLock lock(&mutex_);
    const LaneTraffic traffic = lane->traffic();
    traffic_.bytes_received += traffic.bytes_received;
    traffic_.bytes_sent += traffic.bytes_sent;
    awaited_hellos_.Forget(lane.get());
    const auto found = peers_.find(lane.get());
    if (found == peers_.end()) return;
    const Peer peer = std::move(found->second);
    peers_.erase(found);
    if (peer.worker == kObserver) return;
    Worker& worker = workers_[peer.worker];
    if (worker.lane != lane) return;
    worker.lane = nullptr;
    worker.lost_since = last_change_ = absl::Now();
    if (!worker.done) spdlog::warn("{}: worker {} is lost: {}", name_, peer.worker, std::string(status.message()));
    if (peer.chief && !ready_) store_->ForgetAssigned();
  }

  absl::Status Run() {
    while (true) {
      std::vector<std::shared_ptr<Lane>> to_abort;
      std::vector<std::shared_ptr<Lane>> silent;
      Outbox outbox;
      {
        absl::MutexLock lock(&mutex_);
        const absl::Duration tick = std::clamp(std::min({options_.liveness_deadline, options_.wait_deadline, options_.hello_deadline}) / 8,
                                               absl::Milliseconds(10), absl::Seconds(1));
        mutex_.AwaitWithTimeout(absl::Condition(this, &KvServerCore::Ended), tick);
        if (stopped_) return absl::CancelledError(fmt::format("{} was told to stop", name_));
        if (AllDone()) return absl::OkStatus();
        const absl::Time now = absl::Now();
        for (auto& [pointer, peer] : peers_) {
          if (peer.heard + options_.liveness_deadline > now) continue;
          spdlog::warn("{}: {} has been silent for {}", name_, peer.lane->peer(), absl::FormatDuration(now - peer.heard));
          to_abort.push_back(peer.lane);
        }
        silent = awaited_hellos_.TakeLate(clock_.Now());
        const bool anyone = std::ranges::any_of(workers_, [](const Worker& worker) { return worker.lane != nullptr; });
        if (!anyone && last_change_ + options_.rejoin_deadline < now) return NobodyLeft();
        if (CountTraining(now) != told_training_) TellState(outbox);
      }
      for (auto& [to, answers] : outbox) to->Send(std::move(answers));
      for (const std::shared_ptr<Lane>& lane : to_abort) lane->Abort();
      for (const std::shared_ptr<Lane>& lane : silent) {
        spdlog::warn("{} turns {} away: it has not said 'hello' within {}", name_, lane->peer(),
                     absl::FormatDuration(options_.hello_deadline));
        lane->Close(
            absl::DeadlineExceededError(fmt::format("{}: no 'hello' within {}", name_, absl::FormatDuration(options_.hello_deadline))));
      }
      CheckRounds();
    }
  }

  void Stop() {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }

  KvServerStats stats() const {
    const PartStore::Counts counts = store_->counts();
    KvServerStats stats;
    stats.global_step = store_->global_step();
    stats.parameter_bytes = store_->parameter_bytes();
    stats.duplicates = counts.duplicates;
    stats.staleness_mean = counts.steps == 0 ? 0 : static_cast<double>(counts.staleness_sum) / static_cast<double>(counts.steps);
    stats.staleness_max = counts.staleness_max;
    int last_key = -1;
    for (const int part : store_->parts()) {
      if (placement_.parts[part].key != last_key) ++stats.keys;
      last_key = placement_.parts[part].key;
    }
    absl::MutexLock lock(&mutex_);
    LaneTraffic traffic = traffic_;
    for (const auto& [pointer, peer] : peers_) {
      traffic.bytes_received += peer.lane->traffic().bytes_received;
      traffic.bytes_sent += peer.lane->traffic().bytes_sent;
    }
    stats.bytes_received = traffic.bytes_received;
    stats.bytes_sent = traffic.bytes_sent;
    for (size_t i = 0; i < workers_.size() && workers_[i].member; ++i) {
      stats.workers.push_back(
          {.pushes = counts.worker_steps[i], .joins = workers_[i].joins, .activity = workers_[i].activity, .done = workers_[i].done});
    }
    return stats;
  }

 private:
  bool AllDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::all_of(workers_, [](const Worker& worker) { return !worker.member || (worker.done && worker.lane == nullptr); });
  }
  bool Ended() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopped_ || AllDone(); }

  absl::Status NobodyLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string who;
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].member && !workers_[i].done)
        who += fmt::format("{}worker {}{}", who.empty() ? "" : ", ", i, workers_[i].joins == 0 ? " (never came)" : "");
    }
    return absl::UnavailableError(fmt::format("{}: no worker is connected, and for {} none of those that have not finished came back: {}",
                                              name_, absl::FormatDuration(options_.rejoin_deadline), who));
  }

  // Workers that may still push.
  int CountTraining(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int training = 0;
    for (const Worker& worker : workers_) training += IsTraining(worker, now) ? 1 : 0;
    return training;
  }
  bool IsTraining(const Worker& worker, absl::Time now) const {
    return worker.member && !worker.left && !worker.done &&
           (worker.lane != nullptr || worker.lost_since + options_.liveness_deadline > now);
  }

  WireHeader Header(WireOp op) const {
    WireHeader header;
    header.op = op;
    header.epoch = incarnation_;
    header.sender = kServerRank | static_cast<uint32_t>(options_.server);
    header.fingerprint = fingerprint_;
    return header;
  }

  Record StateFor(WireOp op, int worker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Time now = absl::Now();
    KvServerState state;
    state.training = CountTraining(now);
    state.end_step = end_step_;
    if (worker != kObserver) {
      if (IsTraining(workers_[worker], now)) --state.training;
      if (ready_) state.worker_step = store_->NextStepOf(worker);
    }
    Record record{Header(op), Payload::OfText(ToJson(state))};
    record.header.length = static_cast<uint32_t>(record.payload.size());
    record.header.flags = ready_ ? kWireFlagReady : 0;
    record.header.step = static_cast<uint64_t>(store_->global_step());
    return record;
  }

  void TellState(Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    told_training_ = CountTraining(absl::Now());
    for (const auto& [pointer, peer] : peers_) outbox[peer.lane].push_back(StateFor(WireOp::kState, peer.worker));
  }

  absl::Status Handle(const std::shared_ptr<Lane>& lane, Record& record, Outbox& outbox) {
    const WireHeader& header = record.header;
    if (header.op == WireOp::kHello) return OnHello(lane, record, outbox);
    Peer peer;
    bool ready = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = peers_.find(lane.get());
      if (found == peers_.end()) {
        return absl::FailedPreconditionError(fmt::format("the first record must be 'hello', found '{}'", WireOpName(header.op)));
      }
      found->second.heard = absl::Now();
      peer = found->second;
      ready = ready_;
    }
    TY_RETURN_IF_ERROR(CheckSender(header, peer));
    switch (header.op) {
      case WireOp::kHeartbeat:
        OnHeartbeat(peer, header);
        return absl::OkStatus();
      case WireOp::kPush:
        return OnPush(peer, ready, record, outbox);
      case WireOp::kPull:
        return OnPull(peer, ready, header, outbox[lane]);
      case WireOp::kAssign:
        return OnAssign(peer, ready, record);
      case WireOp::kReady:
        return OnReady(peer, ready, header, outbox);
      case WireOp::kEnd:
        return OnEnd(peer, ready, header, outbox);
      case WireOp::kLeave:
      case WireOp::kDone:
        return OnLeave(peer, header.op == WireOp::kDone, outbox);
      default:
        return absl::InvalidArgumentError(fmt::format("'{}' is not for a server", WireOpName(header.op)));
    }
  }

  absl::Status CheckSender(const WireHeader& header, const Peer& peer) const {
    if (header.fingerprint != fingerprint_) {
      return absl::InvalidArgumentError(
          fmt::format("'{}': model fingerprint is {:016x}, expected {:016x}", WireOpName(header.op), header.fingerprint, fingerprint_));
    }
    if (header.epoch != incarnation_) {
      return absl::InvalidArgumentError(
          fmt::format("'{}': epoch is {:08x}, expected {:08x}", WireOpName(header.op), header.epoch, incarnation_));
    }
    const uint32_t rank = peer.worker == kObserver ? kObserverRank : static_cast<uint32_t>(peer.worker);
    if (header.sender == rank) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("'{}': sender is {}, expected {}", WireOpName(header.op), header.sender, rank));
  }

  absl::Status OnHello(const std::shared_ptr<Lane>& lane, const Record& record, Outbox& outbox) {
    const WireHeader& header = record.header;
    TY_ASSIGN_OR_RETURN(const KvHello hello, ParseHello(record.payload.ToString()));
    const bool observer = header.sender == kObserverRank;
    const std::string their_name = observer ? "the evaluator" : fmt::format("worker {}", header.sender);
    TY_RETURN_IF_ERROR(CheckAgreement(agreement_, name_, hello.agreement, their_name));
    const int places = PartStore::Places(options_.mode, options_.workers);
    if (!observer && header.sender >= static_cast<uint32_t>(places)) {
      return absl::InvalidArgumentError(fmt::format("worker index is {}, expected 0 to {}", header.sender, places - 1));
    }
    const bool positioned = (header.flags & kWireFlagPosition) != 0;
    if (positioned && header.step > kLastStep) return absl::InvalidArgumentError(fmt::format("'hello': step is {}", header.step));
    const int worker = observer ? kObserver : static_cast<int>(header.sender);
    std::shared_ptr<Lane> replaced;
    std::vector<PushAnswer> answers;
    {
      absl::MutexLock lock(&mutex_);
      if (peers_.contains(lane.get())) return absl::FailedPreconditionError("'hello' came twice");
      if (!observer) TY_RETURN_IF_ERROR(CheckVocabulary(worker, hello.vocabulary));
      awaited_hellos_.Forget(lane.get());
      peers_[lane.get()] = {.lane = lane, .worker = worker, .chief = hello.chief && !observer, .heard = absl::Now()};
      last_change_ = absl::Now();
      if (!observer) {
        Worker& known = workers_[worker];
        replaced = std::exchange(known.lane, lane);
        peers_[lane.get()].joins = ++known.joins;
        known.member = true;
        known.done = false;
        known.left = hello.left;
        known.vocabulary = hello.vocabulary;
      }
    }
    if (replaced != nullptr) {
      replaced->Close(absl::AbortedError(
          fmt::format("{}: another process said it is worker {}; only one can be (was it started twice?)", name_, header.sender)));
    }
    // A worker that only lost its lane is expected in the same rounds as before; one that was restarted in every open round; one that is
    // new to this incarnation of the server from where it stands.
    const bool known = positioned && header.epoch == incarnation_;
    if (!observer && (!known || hello.left)) {
      if (positioned) store_->SetPosition(worker, static_cast<int64_t>(header.step));
      answers = store_->Expect(worker, hello.left ? PartStore::kNever : positioned ? static_cast<int64_t>(header.step) : 0);
    }
    absl::MutexLock lock(&mutex_);
    outbox[lane].push_back(StateFor(WireOp::kWelcome, worker));
    Address(answers, outbox);
    return absl::OkStatus();
  }

  // Each worker makes it of its own copy of the text: those that are here must have one, and once there are parameters, the chief's.
  absl::Status CheckVocabulary(int worker, const std::string& vocabulary) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto differ = [&](std::string_view whose, size_t other, const std::string& theirs) {
      const auto text = [](const std::string& which) { return which.empty() ? "none" : which; };
      return absl::FailedPreconditionError(
          fmt::format("the vocabulary differs: {}worker {} has {}, worker {} has {}; it is made of the training text: give all workers the "
                      "same files and settings of data",
                      whose, other, text(theirs), worker, text(vocabulary)));
    };
    if (ready_) return vocabulary == vocabulary_ ? absl::OkStatus() : differ("the training as begun by ", chief_, vocabulary_);
    for (size_t other = 0; other < workers_.size(); ++other) {
      const Worker& known = workers_[other];
      if (other == static_cast<size_t>(worker) || known.lane == nullptr || known.vocabulary == vocabulary) continue;
      return differ("", other, known.vocabulary);
    }
    return absl::OkStatus();
  }

  absl::Status OnPush(const Peer& peer, bool ready, Record& record, Outbox& outbox) {
    const WireHeader& header = record.header;
    if (peer.worker == kObserver) return absl::PermissionDeniedError("an evaluator may not push");
    if (!ready) return absl::FailedPreconditionError("'push' before the chief has initialised this server");
    TY_ASSIGN_OR_RETURN(const int part, FindPart(header));
    if (header.step > kLastStep)
      return absl::InvalidArgumentError(fmt::format("'push': step is {}, expected at most {}", header.step, kLastStep));
    PushedGradient gradient(std::move(record.payload));
    if ((header.flags & kWireFlagRows) != 0) {
      absl::StatusOr<std::vector<int32_t>> rows = ParseRowPayload(RowsOf(part), gradient.payload);
      if (!rows.ok()) return WithContext(rows.status(), fmt::format("'push' of '{}' part {}", TensorOf(part), header.part));
      gradient.rows = *std::move(rows);
    }
    gradient.lane = peer.joins;
    const auto step = static_cast<int64_t>(header.step);
    const bool profiled = options_.profile != nullptr && options_.profile->Wants(step);
    const int64_t start = profiled ? options_.profile->Now() : 0;
    std::optional<PushAnswer> answer = store_->Push(part, peer.worker, step, std::move(gradient));
    if (profiled) {
      options_.profile->Add({.kind = answer && !answer->duplicate ? SpanKind::kSum : SpanKind::kReceive,
                             .id = part,
                             .worker = peer.worker,
                             .step = step,
                             .start = start,
                             .end = options_.profile->Now()});
    }
    if (!answer) return absl::OkStatus();
    if (options_.mode == KvMode::kAsync || answer->duplicate) {  // the push's own: down its lane, even if that was replaced meanwhile
      outbox[peer.lane].push_back(AnswerRecord(*answer, /*rows=*/!answer->row_workers.empty()));
      return absl::OkStatus();
    }
    absl::MutexLock lock(&mutex_);
    Address({&*answer, 1}, outbox);
    return absl::OkStatus();
  }

  absl::Status OnPull(const Peer& peer, bool ready, const WireHeader& header, std::vector<Record>& answers) {
    if (!ready) return absl::FailedPreconditionError("'pull' before the chief has initialised this server");
    if (peer.worker != kObserver) store_->SawCurrent(peer.worker);
    const int last_slot = (header.flags & kWireFlagSlots) != 0 ? store_->slots() : 0;
    for (const int part : store_->parts()) {
      for (int slot = 0; slot <= last_slot; ++slot) {
        answers.push_back(PartRecord(WireOp::kValues, part, store_->Read(part, slot)));
        answers.back().header.slot = static_cast<uint16_t>(slot);
        answers.back().header.step = static_cast<uint64_t>(store_->global_step());
      }
    }
    return absl::OkStatus();
  }

  absl::Status OnAssign(const Peer& peer, bool ready, const Record& record) {
    if (!peer.chief) return absl::PermissionDeniedError("only the chief may assign parameters");
    if (ready) return absl::FailedPreconditionError("'assign' to a server that is initialised already");
    TY_ASSIGN_OR_RETURN(const int part, FindPart(record.header));
    if (record.header.slot > store_->slots()) {
      return absl::InvalidArgumentError(fmt::format("'assign': slot is {}, expected 0 to {}", record.header.slot, store_->slots()));
    }
    store_->Assign(part, record.header.slot, record.payload);
    return absl::OkStatus();
  }

  absl::Status OnReady(const Peer& peer, bool ready, const WireHeader& header, Outbox& outbox) {
    if (!peer.chief) return absl::PermissionDeniedError("only the chief may start the training");
    if (ready) return absl::FailedPreconditionError("'ready' to a server that is initialised already");
    if (header.step > kLastStep)
      return absl::InvalidArgumentError(fmt::format("'ready': step is {}, expected at most {}", header.step, kLastStep));
    TY_RETURN_IF_ERROR(store_->Activate(static_cast<int64_t>(header.step)));
    spdlog::info("{} is initialised at step {}", name_, header.step);
    absl::MutexLock lock(&mutex_);
    ready_ = true;
    chief_ = static_cast<size_t>(peer.worker);
    vocabulary_ = workers_[chief_].vocabulary;
    TellState(outbox);
    return absl::OkStatus();
  }

  void OnHeartbeat(const Peer& peer, const WireHeader& header) {
    if (peer.worker == kObserver) return;
    absl::MutexLock lock(&mutex_);
    Worker& worker = workers_[peer.worker];
    if (worker.activity == header.step) return;
    worker.activity = header.step;
    worker.active_at = clock_.Now();
  }

  absl::Status OnEnd(const Peer& peer, bool ready, const WireHeader& header, Outbox& outbox) {
    if (!peer.chief) return absl::PermissionDeniedError("only the chief may end the training");
    if (!ready) return absl::FailedPreconditionError("'end' before the chief has initialised this server");
    if (header.step > kLastStep)
      return absl::InvalidArgumentError(fmt::format("'end': step is {}, expected at most {}", header.step, kLastStep));
    const auto step = static_cast<int64_t>(header.step);
    TY_RETURN_IF_ERROR(store_->EndAt(step));
    spdlog::info("{}: the chief ends the training at step {}", name_, step);
    absl::MutexLock lock(&mutex_);
    end_step_ = step;
    TellState(outbox);
    return absl::OkStatus();
  }

  absl::Status OnLeave(const Peer& peer, bool done, Outbox& outbox) {
    std::vector<PushAnswer> answers;
    if (peer.worker != kObserver) answers = store_->Expect(peer.worker, PartStore::kNever);
    absl::MutexLock lock(&mutex_);
    last_change_ = absl::Now();
    if (peer.worker != kObserver) {
      workers_[peer.worker].left = true;
      workers_[peer.worker].done = done;
    }
    Address(answers, outbox);
    TellState(outbox);
    if (done) peer.lane->Close(absl::OkStatus());
    return absl::OkStatus();
  }

  // The part that a header speaks of, which this server must hold and whose range it must give exactly.
  absl::StatusOr<int> FindPart(const WireHeader& header) const {
    if (header.key >= options_.specs.size()) {
      return absl::InvalidArgumentError(
          fmt::format("'{}': key is {}, expected 0 to {}", WireOpName(header.op), header.key, options_.specs.size() - 1));
    }
    const std::string& tensor = options_.specs[header.key].name;
    const int first = placement_.first_of_key[header.key];
    const auto count = static_cast<uint32_t>(placement_.first_of_key[header.key + 1] - first);
    if (header.part >= count || !store_->Holds(first + static_cast<int>(header.part))) {
      return absl::InvalidArgumentError(
          fmt::format("'{}' of '{}': part {} of {} is not on this server", WireOpName(header.op), tensor, header.part, count));
    }
    const Part& part = placement_.parts[first + header.part];
    const uint64_t offset = static_cast<uint64_t>(part.begin) * sizeof(float);
    // How long rows may be is their parser's business.
    const bool rows = header.op == WireOp::kPush && (header.flags & kWireFlagRows) != 0;
    const uint64_t length = rows ? header.length : static_cast<uint64_t>(part.count) * sizeof(float);
    if (header.dtype != static_cast<uint8_t>(DType::kF32) || header.offset != offset || header.length != length) {
      return absl::InvalidArgumentError(
          fmt::format("'{}' of '{}' part {}: found dtype {}, {} bytes at {}, expected dtype 0 (F32), {} bytes at {}", WireOpName(header.op),
                      tensor, header.part, header.dtype, header.length, header.offset, length, offset));
    }
    return first + static_cast<int>(header.part);
  }

  const std::string& TensorOf(int part) const { return options_.specs[placement_.parts[part].key].name; }
  PartRows RowsOf(int part) const { return {options_.specs[placement_.parts[part].key], placement_.parts[part]}; }

  Record PartRecord(WireOp op, int index, Payload payload) const {
    const Part& part = placement_.parts[index];
    Record record{Header(op), std::move(payload)};
    record.header.key = static_cast<uint32_t>(part.key);
    record.header.part = static_cast<uint32_t>(part.index);
    record.header.dtype = static_cast<uint8_t>(DType::kF32);
    record.header.offset = static_cast<uint64_t>(part.begin) * sizeof(float);
    record.header.length = static_cast<uint32_t>(record.payload.size());
    return record;
  }

  Record AnswerRecord(const PushAnswer& answer, bool rows) const {
    Record record = PartRecord(WireOp::kParameters, answer.part, rows ? answer.rows : answer.values);
    record.header.step = static_cast<uint64_t>(answer.step);
    record.header.flags = (rows ? kWireFlagRows : 0) | (answer.duplicate ? kWireFlagDuplicate : 0);
    return record;
  }

  // To whoever of the answers' workers is connected; the others ask again when they come back.
  void Address(std::span<const PushAnswer> answers, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const PushAnswer& answer : answers) {
      for (const bool rows : {false, true}) {
        for (const int worker : rows ? answer.row_workers : answer.workers) {
          if (workers_[worker].lane != nullptr) outbox[workers_[worker].lane].push_back(AnswerRecord(answer, rows));
        }
      }
    }
  }

  // A round that waits too long is an error for everyone, which names those who are missing. Those who wait for a worker that is at work on
  // something else are told that they do.
  void CheckRounds() {
    const std::optional<OpenRound> round = store_->OldestOpenRound();
    if (!round) return;
    const absl::Time now = clock_.Now();
    std::vector<std::shared_ptr<Lane>> lanes;
    std::string missing;
    bool overdue = false;
    {
      absl::MutexLock lock(&mutex_);
      std::vector<absl::Time> active_at;
      for (const Worker& worker : workers_) active_at.push_back(worker.active_at);
      overdue = IsOverdue(*round, active_at, 0.8 * options_.wait_deadline, now);
      for (const int worker : round->missing) {
        const Worker& known = workers_[worker];
        const std::string state =
            known.lane != nullptr ? "connected, but has neither pushed nor done anything else"
            : known.joins == 0
                ? "never connected"
                : fmt::format("lost for {}", absl::FormatDuration(absl::Trunc(absl::Now() - known.lost_since, absl::Milliseconds(100))));
        missing += fmt::format("{}worker {} ({})", missing.empty() ? "" : ", ", worker, state);
      }
      for (const auto& [pointer, peer] : peers_) {
        if (peer.worker != kObserver) lanes.push_back(peer.lane);
      }
    }
    if (!overdue) {
      for (const std::shared_ptr<Lane>& lane : lanes) lane->Send({Record{Header(WireOp::kHeartbeat), {}}});
      return;
    }
    const absl::Status status = absl::DeadlineExceededError(
        fmt::format("{}: step {} of '{}' has waited {} for {}", name_, round->step, options_.specs[placement_.parts[round->part].key].name,
                    absl::FormatDuration(absl::Trunc(now - round->since, absl::Milliseconds(100))), missing));
    if (!lanes.empty()) spdlog::error("{}", std::string(status.message()));
    for (const std::shared_ptr<Lane>& lane : lanes) lane->Close(status);
  }

  static constexpr uint64_t kLastStep = uint64_t{1} << 53;

  const KvServerOptions options_;
  const std::string name_;
  const Placement placement_;
  const uint64_t fingerprint_;
  const uint32_t incarnation_;
  KvAgreement agreement_;
  Clock& clock_;
  std::unique_ptr<PartStore> store_;

  mutable absl::Mutex mutex_;
  AwaitedHellos awaited_hellos_ ABSL_GUARDED_BY(mutex_);
  std::map<const Lane*, Peer> peers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  size_t chief_ ABSL_GUARDED_BY(mutex_) = 0;        // where ready_: the worker who made it so,
  std::string vocabulary_ ABSL_GUARDED_BY(mutex_);  // and its vocabulary
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int told_training_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t end_step_ ABSL_GUARDED_BY(mutex_) = -1;  // the chief has ended the training at this step
  absl::Time last_change_ ABSL_GUARDED_BY(mutex_);
  LaneTraffic traffic_ ABSL_GUARDED_BY(mutex_);  // of lanes that have ended
};

class ListeningKvServer final : public KvServer {
 public:
  ListeningKvServer(std::shared_ptr<KvServerCore> core, std::unique_ptr<Listener> listener)
      : core_(std::move(core)), listener_(std::move(listener)) {}

  std::string address() const override { return listener_->address(); }
  absl::Status Run() override { return core_->Run(); }
  void Stop() override { core_->Stop(); }
  KvServerStats stats() const override { return core_->stats(); }

 private:
  const std::shared_ptr<KvServerCore> core_;
  const std::unique_ptr<Listener> listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<KvServer>> KvServer::Create(KvServerOptions options, Transport& transport) {
  if (options.servers < 1 || options.server < 0 || options.server >= options.servers || options.workers < 1) {
    return absl::InvalidArgumentError(
        fmt::format("server {} of {} with {} workers: expected at least one worker and an index below the number of servers",
                    options.server, options.servers, options.workers));
  }
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, MakeOptimizer(options.optimizer));
  const std::string address = options.address;
  auto core = std::make_shared<KvServerCore>(std::move(options), std::move(optimizer));
  TY_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, transport.Listen(address, core));
  return std::make_unique<ListeningKvServer>(std::move(core), std::move(listener));
}

}  // namespace trainyard::engine
