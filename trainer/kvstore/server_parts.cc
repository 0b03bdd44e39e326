// KvServerCore: what workers and the chief do with the parts.
#include <fmt/format.h>

#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/kvstore/server_core.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLongestTornReason = 1000;

absl::Status CheckStep(const WireHeader& header, uint64_t last) {
  if (header.step <= last) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("'{}': step is {}, expected at most {}", WireOpName(header.op), header.step, last));
}

absl::Status CheckChief(const Peer& peer, std::string_view what) {
  return peer.chief ? absl::OkStatus() : absl::PermissionDeniedError(fmt::format("only the chief may {}", what));
}

absl::Status CheckReady(bool ready, const WireHeader& header) {
  if (ready) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("'{}' before the chief has initialised this server", WireOpName(header.op)));
}

absl::Status CheckNotReady(bool ready, const WireHeader& header) {
  if (!ready) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("'{}' to a server that is initialised already", WireOpName(header.op)));
}

}  // namespace

absl::Status KvServerCore::OnPush(const Peer& peer, bool ready, Record& record, Outbox& outbox) {
  const WireHeader& header = record.header;
  if (peer.worker == kObserver) return absl::PermissionDeniedError("an evaluator may not push");
  TY_RETURN_IF_ERROR(CheckReady(ready, header));
  TY_ASSIGN_OR_RETURN(const int part, records_.Find(header, options_.server));
  TY_RETURN_IF_ERROR(CheckStep(header, kLastStep));
  TY_RETURN_IF_ERROR(CheckAddends(header));
  PushedGradient gradient;
  gradient.addends = header.slot;
  if (gradient.addends > 0) {
    TY_ASSIGN_OR_RETURN(gradient.rows, records_.RowsIn(record, part));
  }
  gradient.payload = std::move(record.payload);
  gradient.stream = peer.joins;
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
  if (!sync() || answer->duplicate) {  // the push's own: down its stream, even if that was replaced meanwhile
    const bool rows = !answer->row_workers.empty();
    if (sync() || rows) {
      outbox[peer.stream].push_back(AnswerRecord(*answer, rows));
    } else {
      outbox[peer.stream].push_back(LateRecord(WireOp::kParameters, part, /*slot=*/0));
      if (answer->duplicate) outbox[peer.stream].back().header.flags = kWireFlagDuplicate;
    }
    return absl::OkStatus();
  }
  MutexLock lock(&mutex_);
  Address(*answer, outbox);
  return absl::OkStatus();
}

absl::Status KvServerCore::CheckAddends(const WireHeader& header) const {
  const int most = sync() ? options_.devices : 1;
  if (header.slot <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("'push' of '{}': the sum over {} devices, expected at most {}", options_.specs[header.key].name, header.slot, most));
}

absl::Status KvServerCore::OnPull(const Peer& peer, bool ready, const WireHeader& header, std::vector<Record>& answers) {
  TY_RETURN_IF_ERROR(CheckReady(ready, header));
  if (peer.worker != kObserver) store_->SawCurrent(peer.worker);
  const int last_slot = (header.flags & kWireFlagSlots) != 0 ? store_->slots() : 0;
  for (const int part : store_->parts()) {
    for (int slot = 0; slot <= last_slot; ++slot) answers.push_back(LateRecord(WireOp::kValues, part, slot));
    if (!sync()) continue;
    // Of this moment: all parts are lent before any of them goes on to another round.
    Record& values = answers[answers.size() - last_slot - 1];
    values.late = nullptr;
    values.payload = store_->Read(part, /*slot=*/0);
    values.header.step = static_cast<uint64_t>(store_->VersionOf(part));
  }
  return absl::OkStatus();
}

absl::Status KvServerCore::OnAssign(const Peer& peer, bool ready, const Record& record) {
  TY_RETURN_IF_ERROR(CheckChief(peer, "assign parameters"));
  TY_RETURN_IF_ERROR(CheckNotReady(ready, record.header));
  TY_ASSIGN_OR_RETURN(const int part, records_.Find(record.header, options_.server));
  if (record.header.slot > store_->slots()) {
    return absl::InvalidArgumentError(fmt::format("'assign': slot is {}, expected 0 to {}", record.header.slot, store_->slots()));
  }
  store_->Assign(part, record.header.slot, record.payload);
  return absl::OkStatus();
}

absl::Status KvServerCore::OnReady(const Peer& peer, bool ready, const Record& record, Outbox& outbox) {
  const WireHeader& header = record.header;
  TY_RETURN_IF_ERROR(CheckChief(peer, "start the training"));
  TY_RETURN_IF_ERROR(CheckNotReady(ready, header));
  TY_RETURN_IF_ERROR(CheckStep(header, kLastStep));
  TY_ASSIGN_OR_RETURN(const KvLine line, ParseLine(record.payload.ToString()));
  const auto step = static_cast<int64_t>(header.step);
  TY_RETURN_IF_ERROR(store_->Activate(step, line.step));
  LogInfo("{} is initialised at step {}", name_, step);
  MutexLock lock(&mutex_);
  training_.ready = true;
  training_.line = line.line;
  training_.line_step = line.step;
  training_.origin = line.origin;
  training_.chief = static_cast<size_t>(peer.worker);
  training_.vocabulary = members_.workers()[training_.chief].vocabulary;
  training_.settings = members_.workers()[training_.chief].settings;
  TellState(outbox);
  return absl::OkStatus();
}

absl::Status KvServerCore::OnNewer(const Peer& peer, bool ready, const Record& record) {
  const WireHeader& header = record.header;
  if (sync()) return absl::InvalidArgumentError("'newer' to a server in sync mode");
  if (peer.worker == kObserver) return absl::PermissionDeniedError("an evaluator may not give values");
  TY_RETURN_IF_ERROR(CheckReady(ready, header));
  TY_RETURN_IF_ERROR(CheckStep(header, kLastStep));
  TY_ASSIGN_OR_RETURN(const int part, records_.Find(header, options_.server));
  if (!store_->TakeNewer(part, static_cast<int64_t>(header.step), record.payload)) return absl::OkStatus();
  LogInfo("{}: '{}' part {} takes the values of worker {}, of step {}", name_, records_.TensorOf(part), header.part, peer.worker,
          header.step);
  return absl::OkStatus();
}

absl::Status KvServerCore::OnReset(const Peer& peer, Outbox& outbox) {
  TY_RETURN_IF_ERROR(CheckChief(peer, "reset a server"));
  if (!sync()) return absl::InvalidArgumentError("'reset' of a server in async mode");
  LogWarning("{} forgets its values: the chief rolls the training back", name_);
  store_->Reset();
  incarnation_ = NewIncarnation();
  MutexLock lock(&mutex_);
  training_ = {};
  members_.Release(false);
  for (size_t i = 0; i < members_.workers().size(); ++i) members_.worker(static_cast<int>(i)).left = false;
  TellState(outbox);
  return absl::OkStatus();
}

absl::Status KvServerCore::OnTorn(const Peer& peer, const Record& record, Outbox& outbox) {
  if (!sync() || peer.worker == kObserver) return absl::InvalidArgumentError("'torn' from a peer that cannot tell");
  if (record.payload.size() > kLongestTornReason) {
    return absl::InvalidArgumentError(fmt::format("'torn': {} bytes, expected at most {}", record.payload.size(), kLongestTornReason));
  }
  MutexLock lock(&mutex_);
  if (!training_.ready || !training_.torn.empty()) return absl::OkStatus();
  training_.torn = fmt::format("worker {}: {}", peer.worker, record.payload.ToString());
  LogWarning("{}: {}; waiting for the chief to roll back", name_, training_.torn);
  TellState(outbox);
  return absl::OkStatus();
}

absl::Status KvServerCore::OnRelease(const Peer& peer, bool ready, Outbox& outbox) {
  TY_RETURN_IF_ERROR(CheckChief(peer, "release the workers"));
  if (!ready || !sync()) return absl::FailedPreconditionError("'release' of a server that has nothing to release");
  MutexLock lock(&mutex_);
  training_.released = true;
  members_.Release(true);
  TellState(outbox);
  return absl::OkStatus();
}

absl::Status KvServerCore::OnEnd(const Peer& peer, bool ready, const WireHeader& header, Outbox& outbox) {
  TY_RETURN_IF_ERROR(CheckChief(peer, "end the training"));
  TY_RETURN_IF_ERROR(CheckReady(ready, header));
  TY_RETURN_IF_ERROR(CheckStep(header, kLastStep));
  const auto step = static_cast<int64_t>(header.step);
  TY_RETURN_IF_ERROR(store_->EndAt(step));
  LogInfo("{}: the chief ends the training at step {}", name_, step);
  MutexLock lock(&mutex_);
  training_.end_step = step;
  TellState(outbox);
  return absl::OkStatus();
}

Record KvServerCore::LateRecord(WireOp op, int part, int slot) {
  Record record{.header = records_.HeaderFor(records_.Header(op, incarnation_), part)};
  record.header.slot = static_cast<uint16_t>(slot);
  record.late = [core = shared_from_this(), op, part, slot](WireHeader& late) {
    late.step = static_cast<uint64_t>(core->store_->global_step());
    return op == WireOp::kParameters ? core->store_->ReadAnswer(part) : core->store_->Read(part, slot);
  };
  return record;
}

Record KvServerCore::AnswerRecord(const PushAnswer& answer, bool rows) const {
  const uint32_t flags = (rows ? kWireFlagRows : 0) | (answer.duplicate ? kWireFlagDuplicate : 0);
  const WireHeader header = records_.Control(WireOp::kParameters, incarnation_, answer.step, flags).header;
  return records_.Make(header, answer.part, rows ? answer.rows : answer.values);
}

void KvServerCore::Address(const PushAnswer& answer, Outbox& outbox) {
  for (const bool rows : {false, true}) {
    for (const int worker : rows ? answer.row_workers : answer.workers) {
      const std::shared_ptr<Stream>& stream = members_.workers()[worker].stream;
      if (stream != nullptr) outbox[stream].push_back(AnswerRecord(answer, rows));
    }
  }
}

}  // namespace trainyard::engine
