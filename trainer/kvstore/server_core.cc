#include "trainer/kvstore/server_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

KvAgreement AgreementOf(const KvServerOptions& options, const Placement& placement, std::vector<std::string> slots) {
  KvAgreement agreement = MakeAgreement(options.specs);
  agreement.mode = options.mode;
  agreement.workers = options.workers;
  agreement.devices = options.devices;
  agreement.compression = options.compression;
  agreement.servers = options.servers;
  agreement.server = options.server;
  agreement.placement = placement.hash;
  agreement.slots = std::move(slots);
  return agreement;
}

}  // namespace

KvServerCore::KvServerCore(KvServerOptions options, std::unique_ptr<Optimizer> optimizer)
    : options_(std::move(options)),
      name_(fmt::format("server {}", options_.server)),
      placement_(PlaceParameters(options_.specs, options_.servers, options_.placement)),
      records_(options_.specs, placement_, kServerRank | static_cast<uint32_t>(options_.server), options_.compression),
      incarnation_(NewIncarnation()),
      agreement_(AgreementOf(options_, placement_, optimizer->slot_names())),
      clock_(*options_.clock),
      store_(std::make_unique<PartStore>(options_.specs, placement_, options_.server, options_.mode, options_.workers, std::move(optimizer),
                                         options_.optimizer, clock_, options_.devices, options_.lendable.get(), options_.compression)),
      members_({.mode = options_.mode,
                .workers = options_.workers,
                .places = PartStore::Places(options_.mode, options_.workers),
                .hello = options_.timeouts.hello,
                .silence = options_.timeouts.silence},
               clock_.Now()) {}

uint32_t KvServerCore::NewIncarnation() { return std::random_device{}() | 1U; }

void KvServerCore::Send(Outbox outbox) {
  for (auto& [to, answers] : outbox) to->Send(std::move(answers));
}

void KvServerCore::OnOpened(const std::shared_ptr<Stream>& stream) {
  MutexLock lock(&mutex_);
  members_.Opened(stream, clock_.Now());
}

void KvServerCore::OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) {
  Outbox outbox;
  absl::Status status;
  int pulls = 0;  // their answers are much longer than they are
  for (Record& record : records) {
    if (record.header.op == WireOp::kPull && ++pulls > 1) {
      status = absl::InvalidArgumentError("more than one 'pull' in a message");
    } else if (record.header.op == WireOp::kHello || record.header.op == WireOp::kReset) {
      absl::WriterMutexLock lock(&era_);
      status = HandleAlone(stream, record, outbox);
    } else {
      absl::ReaderMutexLock lock(&era_);
      status = Handle(stream, record, outbox);
    }
    if (!status.ok()) break;
  }
  Send(std::move(outbox));
  if (status.ok()) return;
  TellRefusal(*stream, status);
  stream->Close(WithContext(status, name_));
}

void KvServerCore::OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) {
  TellUnfit(*stream, status);
  Forget(stream, status);
  ShareWindow();
}

absl::Status KvServerCore::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      const absl::Duration tick = std::clamp(std::min({options_.timeouts.silence, options_.timeouts.peer, options_.timeouts.hello}) / 8,
                                             absl::Milliseconds(10), absl::Seconds(1));
      mutex_.AwaitWithTimeout(absl::Condition(this, &KvServerCore::Ended), tick);
      if (stopped_) return absl::CancelledError(fmt::format("{} was told to stop", name_));
      if (members_.AllDone()) return absl::OkStatus();
    }
    EndSilentStreams();
    CheckRounds();
  }
}

void KvServerCore::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
}

KvServerStats KvServerCore::stats() const {
  const PartStore::Counts counts = store_->counts();
  KvServerStats stats;
  stats.global_step = store_->global_step();
  stats.parameter_bytes = store_->parameter_bytes();
  stats.duplicates = counts.duplicates;
  stats.staleness_mean = counts.steps == 0 ? 0 : static_cast<double>(counts.staleness_sum) / static_cast<double>(counts.steps);
  stats.staleness_max = counts.staleness_max;
  if (const std::optional<OpenRound> round = store_->OldestOpenRound()) {
    stats.open_round = {.step = round->step, .age = clock_.Now() - round->since, .waiting = round->waiting, .missing = round->missing};
  }
  int last_key = -1;
  for (const int part : store_->parts()) {
    if (placement_.parts[part].key != last_key) ++stats.keys;
    last_key = placement_.parts[part].key;
  }
  MutexLock lock(&mutex_);
  const StreamTraffic traffic = members_.traffic();
  stats.refused_streams = refusals_.count();
  stats.bytes_received = traffic.bytes_received;
  stats.bytes_sent = traffic.bytes_sent;
  for (size_t i = 0; i < members_.workers().size() && members_.workers()[i].member; ++i) {
    const Member& worker = members_.workers()[i];
    stats.workers.push_back({.pushes = counts.worker_steps[i],
                             .joins = worker.joins,
                             .activity = worker.activity,
                             .connected = worker.stream != nullptr,
                             .done = worker.done});
  }
  return stats;
}

absl::StatusOr<Peer> KvServerCore::PeerOf(const std::shared_ptr<Stream>& stream, const WireHeader& header) {
  MutexLock lock(&mutex_);
  const Peer* const peer = members_.Hear(stream.get(), RealClock().Now());
  if (peer == nullptr) {
    return absl::FailedPreconditionError(fmt::format("the first record must be 'hello', found '{}'", WireOpName(header.op)));
  }
  TY_RETURN_IF_ERROR(CheckSender(header, *peer));
  return *peer;
}

absl::Status KvServerCore::CheckSender(const WireHeader& header, const Peer& peer) const {
  if (header.fingerprint != records_.fingerprint()) {
    return absl::InvalidArgumentError(fmt::format("'{}': model fingerprint is {:016x}, expected {:016x}", WireOpName(header.op),
                                                  header.fingerprint, records_.fingerprint()));
  }
  const uint32_t rank = peer.worker == kObserver ? kObserverRank : static_cast<uint32_t>(peer.worker);
  if (header.sender == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("'{}': sender is {}, expected {}", WireOpName(header.op), header.sender, rank));
}

bool KvServerCore::IsLate(const Peer& peer, const WireHeader& header) {
  const bool about_parts = header.op != WireOp::kDone && header.op != WireOp::kHeartbeat;
  if (about_parts && header.epoch != incarnation_) return true;
  MutexLock lock(&mutex_);
  return members_.IsReplaced(peer);
}

absl::Status KvServerCore::HandleAlone(const std::shared_ptr<Stream>& stream, const Record& record, Outbox& outbox) {
  if (record.header.op == WireOp::kHello) return OnHello(stream, record, outbox);
  TY_ASSIGN_OR_RETURN(const Peer peer, PeerOf(stream, record.header));
  if (IsLate(peer, record.header)) return absl::OkStatus();
  return OnReset(peer, outbox);
}

absl::Status KvServerCore::Handle(const std::shared_ptr<Stream>& stream, Record& record, Outbox& outbox) {
  const WireHeader& header = record.header;
  TY_ASSIGN_OR_RETURN(const Peer peer, PeerOf(stream, header));
  if (IsLate(peer, header)) return absl::OkStatus();  // its sender hears why, or is gone
  bool ready = false;
  {
    MutexLock lock(&mutex_);
    ready = training_.ready;
    if (header.op == WireOp::kHeartbeat && peer.worker != kObserver) members_.ShowActivity(peer.worker, header.step, clock_.Now());
  }
  switch (header.op) {
    case WireOp::kHeartbeat:
      return absl::OkStatus();
    case WireOp::kPush:
      return OnPush(peer, ready, record, outbox);
    case WireOp::kPull:
      return OnPull(peer, ready, header, outbox[stream]);
    case WireOp::kAssign:
      return OnAssign(peer, ready, record);
    case WireOp::kReady:
      return OnReady(peer, ready, record, outbox);
    case WireOp::kEnd:
      return OnEnd(peer, ready, header, outbox);
    case WireOp::kLeave:
    case WireOp::kDone:
      return OnLeave(peer, header.op == WireOp::kDone, outbox);
    case WireOp::kTorn:
      return OnTorn(peer, record, outbox);
    case WireOp::kNewer:
      return OnNewer(peer, ready, record);
    case WireOp::kPace:
      return OnPace(peer, record, outbox);
    case WireOp::kRelease:
      return OnRelease(peer, ready, outbox);
    default:
      return absl::InvalidArgumentError(fmt::format("'{}' is not for a server", WireOpName(header.op)));
  }
}

}  // namespace trainyard::engine
