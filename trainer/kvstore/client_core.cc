// KvClientCore: the streams, and what servers tell. The worker's requests are in
// client_requests.cc, sync mode's lines in client_line.cc.
#include "trainer/kvstore/client_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/base/clock.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/profile/span_log.h"
#include "trainer/transport/flow_control.h"
#include "trainer/transport/pace_record.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kDialDeadline = absl::Seconds(5);
constexpr size_t kIdleRowBytes = 16 << 20;
constexpr size_t kArrivedBytes = 32 << 20;  // from all servers together, until Wait stores it

}  // namespace

KvClientCore::KvClientCore(KvClientOptions options, Transport& transport)
    : options_(std::move(options)),
      name_(options_.worker == kObserver ? "evaluator" : fmt::format("worker {}", options_.worker)),
      placement_(PlaceParameters(options_.specs, static_cast<int>(options_.servers.size()), options_.placement)),
      records_(options_.specs, placement_, options_.worker == kObserver ? kObserverRank : static_cast<uint32_t>(options_.worker),
               options_.compression),
      agreement_(MakeAgreement(options_.specs)),
      transport_(transport),
      row_buffers_(kIdleRowBytes),
      compressor_(options_.specs, options_.worker == kObserver ? Compression::kNone : options_.compression),
      pushes_(placement_, options_.specs, static_cast<int>(options_.servers.size())),
      pull_(placement_, static_cast<int>(options_.servers.size()), options_.slot_names.size()) {
  agreement_.mode = options_.mode;
  agreement_.workers = options_.workers;
  agreement_.devices = options_.devices;
  agreement_.compression = options_.compression;
  agreement_.servers = static_cast<int>(options_.servers.size());
  agreement_.placement = placement_.hash;
  agreement_.slots = options_.slot_names;
  MutexLock lock(&mutex_);
  for (size_t i = 0; i < options_.servers.size(); ++i) {
    links_.emplace_back(static_cast<int>(i), options_.servers[i], options_.heartbeat_period, options_.timeouts.silence);
  }
}

void KvClientCore::Break(const absl::Status& status) {
  if (error_.ok()) error_ = WithContext(status, name_);
}

ServerLink* KvClientCore::LinkOf(const Stream* stream) {
  for (ServerLink& link : links_) {
    if (link.stream().get() == stream) return &link;
  }
  return nullptr;  // of a stream that was given up
}

Record KvClientCore::Hello(const ServerLink& link) const {
  KvHello hello{.agreement = agreement_,
                .vocabulary = options_.vocabulary,
                .settings = options_.settings,
                .end = options_.end_step,
                .chief = options_.chief,
                .left = left_};
  hello.agreement.server = link.server();
  const bool positioned = position_ >= 0;
  return PartRecords::WithText(Control(WireOp::kHello, link, positioned ? position_ : 0, positioned ? kWireFlagPosition : 0),
                               ToJson(hello));
}

absl::Time KvClientCore::Tend(absl::Time now) {
  Sends heartbeats;
  std::vector<std::shared_ptr<Stream>> given_up;
  absl::Time next = now + options_.heartbeat_period;
  {
    MutexLock lock(&mutex_);
    tend_ = false;
    if (shut_ || !error_.ok()) return next;
    const auto activity = static_cast<int64_t>(activity_.load(std::memory_order_relaxed));
    for (ServerLink& link : links_) {
      if (link.link().TakeHeartbeat(now)) {
        heartbeats.push_back({link.stream(), {Control(WireOp::kHeartbeat, link, activity)}});
        if (pace_ && link.server() == 0) heartbeats.push_back({link.stream(), {WithPace(Control(WireOp::kPace, link), *pace_)}});
      }
      if (link.link().Unanswered(now)) {
        given_up.push_back(link.stream());
        link.Lost(absl::UnavailableError(fmt::format("no answer within {}", absl::FormatDuration(options_.timeouts.silence))), now);
        LogWarning("{}: {}: {}; dialling again", name_, link.Describe(), link.link().last_error());
      }
      if (link.link().DialDue(now)) {
        // Under the lock, so that what the stream tells finds the link that it belongs to.
        link.link().Dialled(transport_.Dial(link.address(), shared_from_this(), kDialDeadline), now);
        link.stream()->SetWindow(WindowShare(kArrivedBytes, links_.size()));
        link.stream()->Send({Hello(link)});
      }
      next = std::min(next, link.link().NextDue());
    }
  }
  for (const std::shared_ptr<Stream>& stream : given_up) stream->Abort();
  Send(std::move(heartbeats));
  return next;
}

bool KvClientCore::AwaitTend(absl::Time next) {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shut_ || tend_; };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(&due), next);
  return !shut_;
}

void KvClientCore::OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) {
  std::vector<Record> out;
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    ServerLink* link = LinkOf(stream.get());
    if (link == nullptr) return;
    for (Record& record : records) {
      status = Handle(*link, record, out);
      if (status.ok()) continue;
      Break(WithContext(status, link->Describe()));
      break;
    }
  }
  if (!out.empty()) stream->Send(std::move(out));
  if (!status.ok()) stream->Close(status);
}

void KvClientCore::OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) {
  MutexLock lock(&mutex_);
  const StreamTraffic traffic = stream->traffic();
  traffic_.bytes_sent += traffic.bytes_sent;
  traffic_.bytes_received += traffic.bytes_received;
  ServerLink* link = LinkOf(stream.get());
  if (link == nullptr) return;
  const bool was_up = link->Lost(status, RealClock().Now());
  ++changes_;
  if (shut_) return;
  tend_ = true;
  if (!status.ok() && !absl::IsUnavailable(status)) {
    Break(WithContext(status, link->Describe()));
  } else if (was_up) {
    LogWarning("{} lost {}: {}; dialling again", name_, link->Describe(), link->link().last_error());
  }
}

absl::Status KvClientCore::Handle(ServerLink& link, Record& record, std::vector<Record>& answers) {
  const WireHeader& header = record.header;
  const uint32_t rank = kServerRank | static_cast<uint32_t>(link.server());
  if (header.fingerprint != records_.fingerprint() || header.sender != rank) {
    return absl::FailedPreconditionError(fmt::format("'{}' is from rank {:#x} with model {:016x}, expected rank {:#x} with model {:016x}",
                                                     WireOpName(header.op), header.sender, header.fingerprint, rank,
                                                     records_.fingerprint()));
  }
  const bool values = header.op == WireOp::kParameters || header.op == WireOp::kValues;
  if (values && header.epoch != link.incarnation()) return absl::OkStatus();  // of before a reset
  switch (header.op) {
    case WireOp::kWelcome:
    case WireOp::kState:
      return OnState(link, record, answers);
    case WireOp::kParameters:
      return OnParameters(link, record);
    case WireOp::kValues:
      return OnValues(link, record);
    case WireOp::kPace:
      return OnPace(record);
    case WireOp::kHeartbeat:
      link.HeldBack(options_.clock->Now());
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(fmt::format("'{}' is not for a worker", WireOpName(header.op)));
  }
}

absl::Status KvClientCore::OnState(ServerLink& link, const Record& record, std::vector<Record>& answers) {
  TY_ASSIGN_OR_RETURN(const KvServerState state, ParseServerState(record.payload.ToString()));
  const WireHeader& header = record.header;
  const ServerLink::News news =
      link.OnState(state, (header.flags & kWireFlagReady) != 0, static_cast<int64_t>(header.step), header.epoch, RealClock().Now());
  if (news.old) return absl::OkStatus();
  ++changes_;
  if (news.restarted) LogWarning("{}: {} was restarted{}", name_, link.Describe(), link.ready() ? "" : " and is empty");
  if (news.lost_state) ++refilled_;
  if (link.ready()) furthest_ = std::max(furthest_, state.highest);
  if (state.end_step >= 0) {
    ended_at_ = state.end_step;
    if (sync()) pushes_.DropFrom(ended_at_);
  } else if (news.became_ready && end_step_ >= 0) {
    answers.push_back(Control(WireOp::kEnd, link, end_step_));
  }
  if (news.became_ready) CatchUp(link, answers);
  return absl::OkStatus();
}

absl::Status KvClientCore::OnPace(const Record& record) {
  if (!options_.chief) return absl::InvalidArgumentError("'pace' is for the chief");
  TY_ASSIGN_OR_RETURN(WorkerPace pace, PaceOf(record, options_.workers));
  paces_.insert_or_assign(pace.worker, std::move(pace));
  return absl::OkStatus();
}

void KvClientCore::TellPace(WorkerPace pace) {
  MutexLock lock(&mutex_);
  if (options_.chief) {
    paces_.insert_or_assign(pace.worker, std::move(pace));
  } else {
    pace_ = std::move(pace);
  }
}

std::vector<WorkerPace> KvClientCore::paces() const {
  MutexLock lock(&mutex_);
  std::vector<WorkerPace> paces;
  for (const auto& [worker, pace] : paces_) paces.push_back(pace);
  return paces;
}

void KvClientCore::CatchUp(ServerLink& link, std::vector<Record>& answers) {
  if (sync() && options_.worker != kObserver && link.state().line != line_) return;  // of another line: Start sees to it
  const bool lost_answers = link.TakeLostAnswers();
  global_step_ = std::max(global_step_, link.step());
  // Part of a step that this worker has not finished may have been answered: in async the others
  // may still wait for it on the new server.
  for (const int part : pushes_.Resend(link.server(), !sync() && lost_answers ? std::optional(position_) : std::nullopt)) {
    answers.push_back(PushRecord(link, part));
  }
  if (left_) answers.push_back(Control(WireOp::kLeave, link));
  if (pull_.AskedOf(link.server()) && pull_.Ask(link.server())) answers.push_back(PullRecord(link));
}

absl::Status KvClientCore::OnParameters(ServerLink& link, Record& record) {
  TY_ASSIGN_OR_RETURN(const int part, records_.Find(record.header, link.server()));
  TY_ASSIGN_OR_RETURN(std::optional<std::vector<int32_t>> rows, records_.RowsIn(record, part));
  const PartPush& pushed = pushes_[part];
  const auto step = static_cast<int64_t>(record.header.step);
  // In sync mode a round may have been completed with what this worker pushed before it was
  // restarted: not the answer that is waited for.
  if (!pushed.outstanding || (sync() && step <= pushed.step)) return absl::OkStatus();
  global_step_ = std::max(global_step_, step);
  pushes_.Answer(part, std::move(record.payload), std::move(rows));
  if (options_.profile != nullptr && options_.profile->Wants(pushed.step)) {
    const int64_t now = options_.profile->Now();
    options_.profile->Add({.kind = SpanKind::kArrived, .id = part, .step = pushed.step, .start = now, .end = now});
  }
  return absl::OkStatus();
}

absl::Status KvClientCore::OnValues(ServerLink& link, const Record& record) {
  TY_ASSIGN_OR_RETURN(const int part, records_.Find(record.header, link.server()));
  const size_t slot = record.header.slot;
  if (slot > options_.slot_names.size()) return absl::InvalidArgumentError(fmt::format("'values': slot is {}", slot));
  const auto step = static_cast<int64_t>(record.header.step);
  global_step_ = std::max(global_step_, step);
  pull_.Store(link.server(), part, slot, step, record.payload);
  return absl::OkStatus();
}

void KvClientCore::Shut(bool goodbye) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    shut_ = true;
    for (const ServerLink& link : links_) {
      if (link.stream() == nullptr) continue;
      std::vector<Record> records;
      if (goodbye && link.up()) records.push_back(Control(WireOp::kDone, link));
      sends.emplace_back(link.stream(), std::move(records));
    }
  }
  for (auto& [stream, records] : sends) {
    if (records.empty()) {
      stream->Abort();
    } else {
      stream->Send(std::move(records));
    }
  }
}

bool KvClientCore::AwaitShut(absl::Time deadline) {
  const auto is_shut = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::all_of(links_, [](const ServerLink& link) { return link.stream() == nullptr; });
  };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(&is_shut), deadline);
}

absl::Status KvClientCore::error() const {
  MutexLock lock(&mutex_);
  return error_;
}

StreamTraffic KvClientCore::traffic() const {
  MutexLock lock(&mutex_);
  StreamTraffic sum = traffic_;
  for (const ServerLink& link : links_) {
    if (link.stream() == nullptr) continue;
    const StreamTraffic traffic = link.stream()->traffic();
    sum.bytes_sent += traffic.bytes_sent;
    sum.bytes_received += traffic.bytes_received;
  }
  return sum;
}

}  // namespace trainyard::engine
