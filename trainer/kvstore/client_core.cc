#include "trainer/kvstore/client_core.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/profile/span_log.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(10);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(500);
constexpr absl::Duration kDialDeadline = absl::Seconds(5);
constexpr size_t kIdleRowBytes = 16 << 20;
constexpr size_t kSmallRecordBytes = 64 << 10;  // shorter ones wait for company

}  // namespace

KvClientCore::KvClientCore(KvClientOptions options, Transport& transport)
    : options_(std::move(options)),
      name_(options_.worker == kObserver ? "evaluator" : fmt::format("worker {}", options_.worker)),
      rank_(options_.worker == kObserver ? kObserverRank : static_cast<uint32_t>(options_.worker)),
      placement_(PlaceParameters(options_.specs, static_cast<int>(options_.servers.size()))),
      fingerprint_(FingerprintOf(options_.specs)),
      agreement_(MakeAgreement(options_.specs)),
      transport_(transport),
      row_buffers_(kIdleRowBytes) {
  agreement_.mode = options_.mode;
  agreement_.workers = options_.workers;
  agreement_.servers = static_cast<int>(options_.servers.size());
  agreement_.placement = placement_.hash;
  agreement_.slots = options_.slot_names;
  for (const Part& part : placement_.parts) trainable_parts_ += options_.specs[part.key].trainable ? 1 : 0;
  absl::MutexLock lock(&mutex_);
  links_.resize(options_.servers.size());
  for (size_t i = 0; i < links_.size(); ++i) links_[i].server = static_cast<int>(i);
  pushed_.resize(placement_.parts.size());
}

std::string KvClientCore::Describe(const Link& link) const {
  return fmt::format("server {} ({})", link.server, options_.servers[link.server]);
}

void KvClientCore::Break(const absl::Status& status) {
  if (error_.ok()) error_ = WithContext(status, name_);
}

KvClientCore::Link* KvClientCore::LinkOf(const Lane* lane) {
  for (Link& link : links_) {
    if (link.lane.get() == lane) return &link;
  }
  return nullptr;  // of a lane that was given up
}

WireHeader KvClientCore::Header(WireOp op, const Link& link) const {
  WireHeader header;
  header.op = op;
  header.epoch = link.incarnation;
  header.sender = rank_;
  header.fingerprint = fingerprint_;
  return header;
}

Record KvClientCore::Control(WireOp op, const Link& link, int64_t step, uint32_t flags) const {
  Record record{Header(op, link), {}};
  record.header.step = static_cast<uint64_t>(step);
  record.header.flags = flags;
  return record;
}

Record KvClientCore::PartRecord(WireOp op, const Link& link, int index, Payload payload, int64_t step) const {
  const Part& part = placement_.parts[index];
  Record record{Header(op, link), std::move(payload)};
  record.header.key = static_cast<uint32_t>(part.key);
  record.header.part = static_cast<uint32_t>(part.index);
  record.header.dtype = static_cast<uint8_t>(DType::kF32);
  record.header.offset = static_cast<uint64_t>(part.begin) * sizeof(float);
  record.header.length = static_cast<uint32_t>(record.payload.size());
  record.header.step = static_cast<uint64_t>(step);
  return record;
}

Record KvClientCore::PushRecord(const Link& link, int part) {
  const Pushed& pushed = pushed_[part];
  const std::span<const float> values = pushed.gradient.values;
  if (pushed.gradient.rows) {
    const PartRows rows = RowsOf(part);
    if (rows.PayloadBytes(*pushed.gradient.rows) < values.size_bytes()) {
      Record record = PartRecord(WireOp::kPush, link, part, MakeRowPayload(rows, *pushed.gradient.rows, values, row_buffers_), pushed.step);
      record.header.flags = kWireFlagRows;
      return record;
    }
  }
  return PartRecord(WireOp::kPush, link, part, Payload(std::as_bytes(values), borrowed_.Lend()), pushed.step);
}

Record KvClientCore::Hello(const Link& link) const {
  KvHello hello{.agreement = agreement_, .vocabulary = options_.vocabulary, .chief = options_.chief, .left = left_};
  hello.agreement.server = link.server;
  Record record{Header(WireOp::kHello, link), Payload::OfText(ToJson(hello))};
  record.header.length = static_cast<uint32_t>(record.payload.size());
  if (position_ >= 0) {
    record.header.step = static_cast<uint64_t>(position_);
    record.header.flags = kWireFlagPosition;
  }
  return record;
}

absl::Time KvClientCore::Tend(absl::Time now) {
  struct Call {
    int server;
    Record hello;
  };
  std::vector<Call> calls;
  std::vector<std::pair<std::shared_ptr<Lane>, Record>> heartbeats;
  absl::Time next = now + options_.heartbeat_period;
  {
    absl::MutexLock lock(&mutex_);
    tend_ = false;
    if (shut_ || !error_.ok()) return next;
    for (Link& link : links_) {
      if (link.lane == nullptr && link.next_dial <= now) calls.push_back({link.server, Hello(link)});
      if (link.lane == nullptr && link.next_dial > now) next = std::min(next, link.next_dial);
      if (link.up && link.next_heartbeat <= now) {
        heartbeats.emplace_back(link.lane,
                                Control(WireOp::kHeartbeat, link, static_cast<int64_t>(activity_.load(std::memory_order_relaxed))));
        link.next_heartbeat = now + options_.heartbeat_period;
      }
      if (link.up) next = std::min(next, link.next_heartbeat);
    }
    // Dialled under the lock, so that what the lane tells finds the link that it belongs to.
    for (Call& call : calls) {
      Link& link = links_[call.server];
      link.lane = transport_.Dial(options_.servers[call.server], shared_from_this(), kDialDeadline);
      link.lane->Send({std::move(call.hello)});
    }
  }
  for (auto& [lane, heartbeat] : heartbeats) lane->Send({std::move(heartbeat)});
  return next;
}

bool KvClientCore::AwaitTend(absl::Time next) {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shut_ || tend_; };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(&due), next);
  return !shut_;
}

void KvClientCore::OnMessage(const std::shared_ptr<Lane>& lane, std::span<Record> records) {
  std::vector<Record> out;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    Link* link = LinkOf(lane.get());
    if (link == nullptr) return;
    for (Record& record : records) {
      status = Handle(*link, record, out);
      if (status.ok()) continue;
      Break(WithContext(status, Describe(*link)));
      break;
    }
  }
  if (!out.empty()) lane->Send(std::move(out));
  if (!status.ok()) lane->Close(status);
}

void KvClientCore::OnClosed(const std::shared_ptr<Lane>& lane, const absl::Status& status) {
  absl::MutexLock lock(&mutex_);
  const LaneTraffic traffic = lane->traffic();
  traffic_.bytes_sent += traffic.bytes_sent;
  traffic_.bytes_received += traffic.bytes_received;
  Link* link = LinkOf(lane.get());
  if (link == nullptr) return;
  const bool was_up = link->up;
  link->lane = nullptr;
  link->up = link->ready = link->filling = false;
  link->last_error = status.ok() ? "it closed the lane" : std::string(status.message());
  link->backoff = was_up ? kFirstBackoff : std::clamp(link->backoff * 2, kFirstBackoff, kLongestBackoff);
  link->next_dial = absl::Now() + link->backoff;
  link->next_heartbeat = absl::InfiniteFuture();
  if (shut_) return;
  tend_ = true;
  if (!status.ok() && !absl::IsUnavailable(status)) {
    Break(WithContext(status, Describe(*link)));
  } else if (was_up) {
    spdlog::warn("{} lost {}: {}; dialling again", name_, Describe(*link), link->last_error);
  }
}

absl::Status KvClientCore::Handle(Link& link, Record& record, std::vector<Record>& answers) {
  const WireHeader& header = record.header;
  if (header.fingerprint != fingerprint_ || header.sender != (kServerRank | static_cast<uint32_t>(link.server))) {
    return absl::FailedPreconditionError(fmt::format("'{}' is from rank {:#x} with model {:016x}, expected rank {:#x} with model {:016x}",
                                                     WireOpName(header.op), header.sender, header.fingerprint,
                                                     kServerRank | static_cast<uint32_t>(link.server), fingerprint_));
  }
  switch (header.op) {
    case WireOp::kWelcome:
    case WireOp::kState:
      return OnState(link, record, answers);
    case WireOp::kParameters:
      return OnParameters(link, record);
    case WireOp::kValues:
      return OnValues(link, record);
    case WireOp::kHeartbeat:
      link.held_back_at = options_.clock->Now();
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(fmt::format("'{}' is not for a worker", WireOpName(header.op)));
  }
}

absl::Status KvClientCore::OnState(Link& link, const Record& record, std::vector<Record>& answers) {
  TY_ASSIGN_OR_RETURN(link.state, ParseServerState(record.payload.ToString()));
  const bool was_ready = link.ready;
  link.up = true;
  link.ready = (record.header.flags & kWireFlagReady) != 0;
  link.step = static_cast<int64_t>(record.header.step);
  link.backoff = absl::ZeroDuration();
  if (link.next_heartbeat == absl::InfiniteFuture()) link.next_heartbeat = absl::Now() + options_.heartbeat_period;
  if (link.incarnation != 0 && link.incarnation != record.header.epoch) {
    spdlog::warn("{}: {} was restarted{}", name_, Describe(link), link.ready ? "" : " and is empty");
    if (link.was_ready) ++refilled_;
    link.lost_state = true;
  }
  link.incarnation = record.header.epoch;
  if (link.state.end_step >= 0) {
    ended_at_ = link.state.end_step;
    DropEndedPushes();
  } else if (link.ready && end_step_ >= 0 && !was_ready) {
    answers.push_back(Control(WireOp::kEnd, link, end_step_));
  }
  if (!link.ready || was_ready) return absl::OkStatus();
  link.filling = false;
  link.was_ready = true;
  global_step_ = std::max(global_step_, link.step);
  const bool lost_state = std::exchange(link.lost_state, false);
  for (size_t i = 0; i < pushed_.size(); ++i) {
    if (placement_.parts[i].server != link.server) continue;
    if (!pushed_[i].outstanding) {
      // Part of a step that this worker has not finished: the others may still wait for it on the new server.
      if (!lost_state || pushed_[i].gradient.values.empty() || pushed_[i].step != position_ || IsPastEnd(position_)) continue;
      pushed_[i].outstanding = true;
      ++outstanding_;
    }
    answers.push_back(PushRecord(link, static_cast<int>(i)));
  }
  if (left_) answers.push_back(Control(WireOp::kLeave, link));
  if (pull_ != nullptr && link.pull_missing > 0) AskForPull(link, answers);
  return absl::OkStatus();
}

absl::StatusOr<int> KvClientCore::FindPart(const Link& link, const WireHeader& header) const {
  const size_t keys = options_.specs.size();
  if (header.key < keys) {
    const int first = placement_.first_of_key[header.key];
    const int last = placement_.first_of_key[header.key + 1];
    if (header.part < static_cast<uint32_t>(last - first)) {
      const Part& part = placement_.parts[first + header.part];
      // How long rows may be is their parser's business.
      const bool rows = header.op == WireOp::kParameters && (header.flags & kWireFlagRows) != 0;
      if (part.server == link.server && (rows || header.length == static_cast<uint64_t>(part.count) * sizeof(float)) &&
          header.offset == static_cast<uint64_t>(part.begin) * sizeof(float) && header.dtype == static_cast<uint8_t>(DType::kF32)) {
        return first + static_cast<int>(header.part);
      }
    }
  }
  return absl::InvalidArgumentError(fmt::format("'{}' of key {} part {}: {} bytes at {} of dtype {} do not fit the model",
                                                WireOpName(header.op), header.key, header.part, header.length, header.offset,
                                                header.dtype));
}

absl::Status KvClientCore::OnParameters(Link& link, Record& record) {
  TY_ASSIGN_OR_RETURN(const int part, FindPart(link, record.header));
  std::optional<std::vector<int32_t>> rows;
  if ((record.header.flags & kWireFlagRows) != 0) {
    absl::StatusOr<std::vector<int32_t>> parsed = ParseRowPayload(RowsOf(part), record.payload);
    if (!parsed.ok()) {
      return WithContext(parsed.status(),
                         fmt::format("'parameters' of '{}' part {}", options_.specs[record.header.key].name, record.header.part));
    }
    rows = *std::move(parsed);
  }
  Pushed& pushed = pushed_[part];
  const auto step = static_cast<int64_t>(record.header.step);
  // In sync mode a round may have been completed with what this worker pushed before it was restarted: not the answer that is waited for.
  if (!pushed.outstanding || (options_.mode == KvMode::kSync && step <= pushed.step)) return absl::OkStatus();
  pushed.outstanding = false;
  --outstanding_;
  global_step_ = std::max(global_step_, step);
  arrived_.push_back({.part = part, .step = pushed.step, .values = std::move(record.payload), .rows = std::move(rows)});
  if (options_.profile != nullptr && options_.profile->Wants(pushed.step)) {
    const int64_t now = options_.profile->Now();
    options_.profile->Add({.kind = SpanKind::kArrived, .id = part, .step = pushed.step, .start = now, .end = now});
  }
  return absl::OkStatus();
}

absl::Status KvClientCore::OnValues(Link& link, const Record& record) {
  TY_ASSIGN_OR_RETURN(const int index, FindPart(link, record.header));
  const size_t slot = record.header.slot;
  if (slot > options_.slot_names.size()) return absl::InvalidArgumentError(fmt::format("'values': slot is {}", slot));
  global_step_ = std::max(global_step_, static_cast<int64_t>(record.header.step));
  if (pull_ == nullptr || link.pull_missing == 0) return absl::OkStatus();
  const Part& part = placement_.parts[index];
  ParameterSet& target = slot == 0 ? pull_->parameters : pull_->slots[slot - 1];
  const std::span<float> values = target.values(part.key).subspan(part.begin, part.count);
  PayloadReader(record.payload).Read(std::as_writable_bytes(values));
  pull_->step = std::max(pull_->step, static_cast<int64_t>(record.header.step));
  --link.pull_missing;
  return absl::OkStatus();
}

void KvClientCore::AskForPull(Link& link, std::vector<Record>& out) {
  link.pull_missing = 0;
  for (const Part& part : placement_.parts) {
    if (part.server == link.server) link.pull_missing += pull_slots_ ? 1 + options_.slot_names.size() : 1;
  }
  if (link.pull_missing > 0) out.push_back(Control(WireOp::kPull, link, 0, pull_slots_ ? kWireFlagSlots : 0));
}

void KvClientCore::StartPull(KvState* into, bool with_slots) {
  std::vector<std::pair<std::shared_ptr<Lane>, std::vector<Record>>> sends;
  {
    absl::MutexLock lock(&mutex_);
    pull_ = into;
    pull_slots_ = with_slots;
    for (Link& link : links_) {
      std::vector<Record> records;
      AskForPull(link, records);
      if (link.up && link.ready && !records.empty()) sends.emplace_back(link.lane, std::move(records));
    }
  }
  for (auto& [lane, records] : sends) lane->Send(std::move(records));
}

void KvClientCore::EndPull() {
  absl::MutexLock lock(&mutex_);
  pull_ = nullptr;
  for (Link& link : links_) link.pull_missing = 0;
}

void KvClientCore::Push(int key, const GradientView& gradient, int64_t step) {
  std::vector<std::pair<std::shared_ptr<Lane>, Record>> sends;
  bool complete = false;
  {
    absl::MutexLock lock(&mutex_);
    position_ = step;
    for (int i = placement_.first_of_key[key]; i < placement_.first_of_key[key + 1]; ++i) {
      if (IsPastEnd(step)) continue;
      const Part& part = placement_.parts[i];
      Pushed& pushed = pushed_[i];
      TY_CHECK(!pushed.outstanding && gradient.values.size() == static_cast<size_t>(options_.specs[key].shape.elements()));
      pushed = {.gradient = gradient.values.subspan(part.begin, part.count), .step = step, .outstanding = true};
      if (gradient.rows) pushed.gradient.rows = RowsOf(i).Inside(*gradient.rows);
      ++outstanding_;
      if (options_.specs[key].trainable) ++unflushed_;
      const Link& link = links_[part.server];
      if (!link.up || !link.ready) continue;
      sends.emplace_back(link.lane, PushRecord(link, i));
    }
    complete = unflushed_ == trainable_parts_;
  }
  SpanLog* const profile = options_.profile != nullptr && options_.profile->Wants(step) ? options_.profile : nullptr;
  for (auto& [lane, record] : sends) {
    const int part = placement_.first_of_key[key] + static_cast<int>(record.header.part);
    const int64_t start = profile != nullptr ? profile->Now() : 0;
    const bool more = record.payload.size() < kSmallRecordBytes;
    lane->Send({std::move(record)}, more);
    if (profile != nullptr) profile->Add({.kind = SpanKind::kPush, .id = part, .step = step, .start = start, .end = profile->Now()});
  }
  if (complete) Flush();
}

void KvClientCore::Flush() {
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    absl::MutexLock lock(&mutex_);
    unflushed_ = 0;
    for (const Link& link : links_) {
      if (link.up && link.ready) lanes.push_back(link.lane);
    }
  }
  for (const std::shared_ptr<Lane>& lane : lanes) lane->Send({});
}

void KvClientCore::Leave() {
  std::vector<std::pair<std::shared_ptr<Lane>, Record>> sends;
  {
    absl::MutexLock lock(&mutex_);
    if (left_) return;
    left_ = true;
    for (const Link& link : links_) {
      if (link.up) sends.emplace_back(link.lane, Control(WireOp::kLeave, link));
    }
  }
  for (auto& [lane, record] : sends) lane->Send({std::move(record)});
}

void KvClientCore::End(int64_t step) {
  std::vector<std::pair<std::shared_ptr<Lane>, Record>> sends;
  {
    absl::MutexLock lock(&mutex_);
    end_step_ = step;
    for (const Link& link : links_) {
      if (link.up && link.ready) sends.emplace_back(link.lane, Control(WireOp::kEnd, link, step));
    }
  }
  for (auto& [lane, record] : sends) lane->Send({std::move(record)});
}

bool KvClientCore::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_at_ >= 0;
}

void KvClientCore::DropEndedPushes() {
  for (Pushed& pushed : pushed_) {
    if (!pushed.outstanding || !IsPastEnd(pushed.step)) continue;
    pushed.outstanding = false;
    --outstanding_;
  }
}

void KvClientCore::Shut(bool goodbye) {
  std::vector<std::pair<std::shared_ptr<Lane>, std::vector<Record>>> sends;
  {
    absl::MutexLock lock(&mutex_);
    shut_ = true;
    for (const Link& link : links_) {
      if (link.lane == nullptr) continue;
      std::vector<Record> records;
      if (goodbye && link.up) records.push_back(Control(WireOp::kDone, link));
      sends.emplace_back(link.lane, std::move(records));
    }
  }
  for (auto& [lane, records] : sends) {
    if (records.empty()) {
      lane->Abort();
    } else {
      lane->Send(std::move(records));
    }
  }
}

bool KvClientCore::AwaitShut(absl::Time deadline) {
  const auto is_shut = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::all_of(links_, [](const Link& link) { return link.lane == nullptr; });
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(&is_shut), deadline);
}

std::vector<KvClientCore::Arrived> KvClientCore::AwaitAnswers(absl::Duration at_most) {
  const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !arrived_.empty() || outstanding_ == 0 || !error_.ok() || (options_.chief && HasEmpty());
  };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&something), at_most);
  return std::exchange(arrived_, {});
}

void KvClientCore::Store(const Arrived& answer, ParameterSet& parameters) const {
  const Part& part = placement_.parts[answer.part];
  const std::span<float> values = parameters.values(part.key).subspan(part.begin, part.count);
  if (!answer.rows) {
    PayloadReader(answer.values).Read(std::as_writable_bytes(values));
    return;
  }
  const PartRows rows = RowsOf(answer.part);
  PayloadReader reader = ValuesOfRows(answer.values, *answer.rows);
  for (const int32_t row : *answer.rows) {
    const PartRows::Range range = rows.RangeOf(row);
    reader.Read(std::as_writable_bytes(values.subspan(range.begin, range.count)));
  }
}

bool KvClientCore::FinishStep(bool pushed) {
  absl::MutexLock lock(&mutex_);
  if (outstanding_ != 0 || !arrived_.empty()) return false;
  if (pushed && !IsPastEnd(position_)) ++position_;
  return true;
}

absl::Time KvClientCore::held_back_at() const {
  absl::MutexLock lock(&mutex_);
  absl::Time earliest = absl::InfiniteFuture();
  for (size_t i = 0; i < pushed_.size(); ++i) {
    if (pushed_[i].outstanding) earliest = std::min(earliest, links_[placement_.parts[i].server].held_back_at);
  }
  return earliest == absl::InfiniteFuture() ? absl::InfinitePast() : earliest;
}

std::string KvClientCore::DescribeOutstanding() const {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < pushed_.size(); ++i) {
    if (!pushed_[i].outstanding) continue;
    const Link& link = links_[placement_.parts[i].server];
    return fmt::format("'{}' of step {} from {}{}", options_.specs[placement_.parts[i].key].name, pushed_[i].step, Describe(link),
                       !link.up      ? ", which cannot be reached: " + link.last_error
                       : !link.ready ? ", which was restarted and waits for the chief to refill it"
                                     : "");
  }
  return "nothing";
}

bool KvClientCore::HasEmpty() const {
  return std::ranges::any_of(links_, [](const Link& link) { return link.up && !link.ready && !link.filling; });
}

bool KvClientCore::Reached(Goal goal) const {
  return std::ranges::all_of(links_, [&](const Link& link) {
    switch (goal) {
      case Goal::kAllUp:
        return link.up;
      case Goal::kAllReady:
        return link.ready;
      case Goal::kPulled:
        return link.pull_missing == 0;
      case Goal::kNobodyTrains:
        return link.ready && link.state.training == 0;
      case Goal::kAllEnded:
        return link.ready && link.state.end_step >= 0;
    }
    return false;
  });
}

bool KvClientCore::Await(Goal goal, absl::Time deadline) {
  const auto something = [this, goal]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Reached(goal) || !error_.ok() || (options_.chief && goal != Goal::kAllUp && HasEmpty());
  };
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(&something), deadline);
  return Reached(goal);
}

std::vector<int> KvClientCore::EmptyServers() const {
  absl::MutexLock lock(&mutex_);
  std::vector<int> empty;
  for (const Link& link : links_) {
    if (link.up && !link.ready && !link.filling) empty.push_back(link.server);
  }
  return empty;
}

void KvClientCore::Fill(int server, const std::shared_ptr<const KvState>& state, int64_t step) {
  std::shared_ptr<Lane> lane;
  std::vector<Record> records;
  {
    absl::MutexLock lock(&mutex_);
    Link& link = links_[server];
    if (!link.up || link.ready) return;
    link.filling = true;
    lane = link.lane;
    for (size_t i = 0; i < placement_.parts.size(); ++i) {
      const Part& part = placement_.parts[i];
      if (part.server != server) continue;
      for (size_t slot = 0; slot <= options_.slot_names.size(); ++slot) {
        const ParameterSet& set = slot == 0 ? state->parameters : state->slots[slot - 1];
        const std::span<const float> values = set.values(part.key).subspan(part.begin, part.count);
        records.push_back(PartRecord(WireOp::kAssign, link, static_cast<int>(i), Payload(std::as_bytes(values), state), step));
        records.back().header.slot = static_cast<uint16_t>(slot);
      }
    }
    records.push_back(Control(WireOp::kReady, link, step));
  }
  lane->Send(std::move(records));
}

absl::Status KvClientCore::error() const {
  absl::MutexLock lock(&mutex_);
  return error_;
}

std::string KvClientCore::DescribeNotReady() const {
  absl::MutexLock lock(&mutex_);
  std::string text;
  for (const Link& link : links_) {
    if (link.ready) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", Describe(link),
                        !link.up         ? link.last_error
                        : options_.chief ? "connected, but does not confirm its parameters"
                                         : "connected, but the chief has not initialised it");
  }
  return text.empty() ? "nothing" : text;
}

int64_t KvClientCore::global_step() const {
  absl::MutexLock lock(&mutex_);
  return global_step_;
}

int64_t KvClientCore::worker_step() const {
  absl::MutexLock lock(&mutex_);
  int64_t lowest = -1;
  for (const Link& link : links_) {
    const int64_t step = link.state.worker_step;
    if (link.ready && step >= 0 && (lowest < 0 || step < lowest)) lowest = step;
  }
  return lowest;
}

bool KvClientCore::any_ready() const {
  absl::MutexLock lock(&mutex_);
  return std::ranges::any_of(links_, [](const Link& link) { return link.ready; });
}

int KvClientCore::TakeRefilled() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(refilled_, 0);
}

void KvClientCore::SetPosition(int64_t step) {
  absl::MutexLock lock(&mutex_);
  position_ = step;
}

int64_t KvClientCore::position() const {
  absl::MutexLock lock(&mutex_);
  return position_;
}

LaneTraffic KvClientCore::traffic() const {
  absl::MutexLock lock(&mutex_);
  LaneTraffic sum = traffic_;
  for (const Link& link : links_) {
    if (link.lane == nullptr) continue;
    const LaneTraffic traffic = link.lane->traffic();
    sum.bytes_sent += traffic.bytes_sent;
    sum.bytes_received += traffic.bytes_received;
  }
  return sum;
}

}  // namespace trainyard::engine
