// KvClientCore: what the worker asks for, and what it waits for.
#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/base/log.h"
#include "trainer/kvstore/client_core.h"
#include "trainer/kvstore/travelling_values.h"
#include "trainer/profile/span_log.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

constexpr size_t kSmallRecordBytes = 64 << 10;  // shorter ones wait for company

}  // namespace

void KvClientCore::Send(Sends sends) {
  for (auto& [stream, records] : sends) stream->Send(std::move(records));
}

KvClientCore::Sends KvClientCore::ToEach(WireOp op, int64_t step, const std::function<bool(const ServerLink&)>& wanted) const {
  Sends sends;
  for (const ServerLink& link : links_) {
    if (wanted(link)) sends.push_back({link.stream(), {Control(op, link, step)}});
  }
  return sends;
}

Record KvClientCore::PushRecord(const ServerLink& link, int part) {
  const PartPush& pushed = pushes_[part];
  const auto make = [&](Payload payload, uint32_t flags) {
    WireHeader header = Control(WireOp::kPush, link, pushed.step, flags).header;
    header.slot = static_cast<uint16_t>(pushed.gradient.addends);
    return records_.Make(header, part, std::move(payload));
  };
  if (pushed.gradient.addends == 0) return make({}, 0);
  const std::span<const std::byte> values = pushed.compressed.empty() ? std::as_bytes(pushed.gradient.values) : pushed.compressed;
  if (pushed.gradient.rows) {
    const PartRows rows = records_.RowsOf(part);
    if (rows.PayloadBytes(*pushed.gradient.rows) < values.size()) {
      return make(MakeRowPayload(rows, *pushed.gradient.rows, values, row_buffers_), kWireFlagRows);
    }
  }
  return make(Payload(values, borrowed_.Lend(placement_.parts[part].server)), 0);
}

void KvClientCore::Push(int key, const std::optional<GradientView>& gradient, int64_t step) {
  std::vector<std::pair<std::shared_ptr<Stream>, Record>> sends;
  bool complete = false;
  // Once for each step, however often its parts are sent.
  const bool compress = gradient && compressor_.Compresses(key);
  const std::span<const std::byte> compressed = compress ? compressor_.Compress(key, *gradient) : std::span<const std::byte>();
  {
    MutexLock lock(&mutex_);
    position_ = step;
    for (int i = placement_.first_of_key[key]; i < placement_.first_of_key[key + 1]; ++i) {
      if (IsPastEnd(step)) continue;
      const Part& part = placement_.parts[i];
      PartPush push{.gradient = {}, .step = step};
      push.gradient.addends = gradient ? gradient->addends : 0;
      if (gradient) {
        TY_CHECK(gradient->values.size() == static_cast<size_t>(options_.specs[key].shape.elements()));
        push.gradient.values = gradient->values.subspan(part.begin, part.count);
        if (compress) push.compressed = compressed.subspan(2 * part.begin, 2 * part.count);
        if (gradient->rows) push.gradient.rows = records_.RowsOf(i).Inside(*gradient->rows);
      }
      pushes_.Add(i, push);
      const ServerLink& link = links_[part.server];
      if (!link.ready() || (sync() && link.state().line != line_)) continue;
      sends.emplace_back(link.stream(), PushRecord(link, i));
    }
    complete = pushes_.FlushDue();
  }
  SpanLog* const profile = options_.profile != nullptr && options_.profile->Wants(step) ? options_.profile : nullptr;
  for (auto& [stream, record] : sends) {
    const int part = placement_.first_of_key[key] + static_cast<int>(record.header.part);
    const int64_t start = profile != nullptr ? profile->Now() : 0;
    const bool more = record.payload.size() < kSmallRecordBytes;
    stream->Send({std::move(record)}, more);
    if (profile != nullptr) profile->Add({.kind = SpanKind::kPush, .id = part, .step = step, .start = start, .end = profile->Now()});
  }
  if (complete) Flush();
}

void KvClientCore::Flush() {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    pushes_.Flushed();
    for (const ServerLink& link : links_) {
      if (link.ready()) sends.push_back({link.stream(), {}});
    }
  }
  Send(std::move(sends));
}

void KvClientCore::Leave() {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    if (left_) return;
    left_ = true;
    sends = ToEach(WireOp::kLeave, 0, &ServerLink::up);
  }
  Send(std::move(sends));
}

void KvClientCore::End(int64_t step) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    end_step_ = step;
    sends = ToEach(WireOp::kEnd, step, &ServerLink::ready);
  }
  Send(std::move(sends));
}

void KvClientCore::Release() {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    sends = ToEach(WireOp::kRelease, 0, &ServerLink::ready);
  }
  Send(std::move(sends));
}

Record KvClientCore::PullRecord(const ServerLink& link) const {
  return Control(WireOp::kPull, link, 0, pull_.with_slots() ? kWireFlagSlots : 0);
}

void KvClientCore::StartPull(TrainingState* into, bool with_slots) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    pull_.Begin(into, with_slots);
    for (const ServerLink& link : links_) {
      if (pull_.Ask(link.server()) && link.ready()) sends.push_back({link.stream(), {PullRecord(link)}});
    }
  }
  Send(std::move(sends));
}

PartPull::Steps KvClientCore::EndPull() {
  MutexLock lock(&mutex_);
  return pull_.End();
}

std::vector<int> KvClientCore::TakeServersBehind(int64_t step) {
  MutexLock lock(&mutex_);
  std::vector<int> behind;
  for (ServerLink& link : links_) {
    if (link.TakeRefilled() && link.state().line_step < step) behind.push_back(link.server());
  }
  return behind;
}

Record KvClientCore::ValuesRecord(WireOp op, const ServerLink& link, int part, size_t slot, const ParameterSet& set,
                                  std::shared_ptr<const void> owner, int64_t step) const {
  const Part& place = placement_.parts[part];
  const std::span<const float> values = set.values(place.key).subspan(place.begin, place.count);
  WireHeader header = Control(op, link, step).header;
  header.slot = static_cast<uint16_t>(slot);
  return records_.Make(header, part, Payload(std::as_bytes(values), std::move(owner)));
}

void KvClientCore::SendNewer(int server, const std::shared_ptr<const ParameterSet>& values, int64_t step) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    ServerLink& link = links_[server];
    if (!link.ready()) return;
    LogWarning("{}: {} was filled with values of step {}; this worker sends it its own, of step {}", name_, link.Describe(),
               link.state().line_step, step);
    std::vector<Record>& records = sends.emplace_back(link.stream(), std::vector<Record>()).second;
    for (size_t i = 0; i < placement_.parts.size(); ++i) {
      if (placement_.parts[i].server != server) continue;
      records.push_back(ValuesRecord(WireOp::kNewer, link, static_cast<int>(i), /*slot=*/0, *values, values, step));
    }
  }
  Send(std::move(sends));
}

void KvClientCore::Fill(int server, const std::shared_ptr<const TrainingState>& state, int64_t step, const KvLine& line) {
  Sends sends;
  {
    MutexLock lock(&mutex_);
    ServerLink& link = links_[server];
    if (!link.up() || link.ready()) return;
    link.Filled(line.line);
    std::vector<Record>& records = sends.emplace_back(link.stream(), std::vector<Record>()).second;
    for (size_t i = 0; i < placement_.parts.size(); ++i) {
      if (placement_.parts[i].server != server) continue;
      for (size_t slot = 0; slot <= options_.slot_names.size(); ++slot) {
        const ParameterSet& set = slot == 0 ? state->parameters : state->slots[slot - 1];
        records.push_back(ValuesRecord(WireOp::kAssign, link, static_cast<int>(i), slot, set, state, step));
      }
    }
    records.push_back(PartRecords::WithText(Control(WireOp::kReady, link, step), ToJson(line)));
  }
  Send(std::move(sends));
}

std::vector<ArrivedValues> KvClientCore::AwaitAnswers(absl::Duration at_most) {
  const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool lost = sync() ? IsLineLost() : options_.chief && HasEmpty();
    return !pushes_.none_arrived() || pushes_.none_outstanding() || !error_.ok() || lost;
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&something), at_most);
  return pushes_.TakeArrived();
}

void KvClientCore::BeginFrom(ParameterSet& parameters) {
  compressor_.Forget();
  for (int key = 0; key < parameters.size(); ++key) {
    if (compressor_.Compresses(key)) RoundToBfloat16(parameters.values(key));
  }
}

void KvClientCore::Store(const ArrivedValues& answer, ParameterSet& parameters) const {
  const Part& part = placement_.parts[answer.part];
  const std::span<float> values = parameters.values(part.key).subspan(part.begin, part.count);
  const PartRows rows = records_.RowsOf(answer.part);
  if (!answer.rows) {
    PayloadReader reader(answer.values);
    ReadValues(reader, rows.travels_as(), values);
    return;
  }
  PayloadReader reader = ValuesOfRows(answer.values, *answer.rows);
  for (const int32_t row : *answer.rows) {
    const PartRows::Range range = rows.RangeOf(row);
    ReadValues(reader, rows.travels_as(), values.subspan(range.begin, range.count));
  }
}

StepState KvClientCore::FinishStep(bool pushed) {
  MutexLock lock(&mutex_);
  if (!pushes_.none_outstanding() || !pushes_.none_arrived()) return StepState::kUnderWay;
  // In sync mode the news of the end may come while a step before the end is waited for.
  const bool past_end = sync() ? IsPastEnd(position_) : ended_at_ >= 0;
  if (pushed && !IsPastEnd(position_)) ++position_;
  return past_end ? StepState::kPastEnd : StepState::kDone;
}

absl::Time KvClientCore::held_back_at() const {
  MutexLock lock(&mutex_);
  const std::vector<bool> owes = pushes_.ServersThatOwe();
  absl::Time earliest = absl::InfiniteFuture();
  absl::Time latest = absl::InfinitePast();
  for (const ServerLink& link : links_) {
    if (owes[link.server()]) earliest = std::min(earliest, link.held_back_at());
    latest = std::max(latest, link.held_back_at());
  }
  return earliest != absl::InfiniteFuture() ? earliest : latest;
}

std::string KvClientCore::DescribeOutstanding() const {
  MutexLock lock(&mutex_);
  const int part = pushes_.FirstOutstanding();
  if (part < 0) return "nothing";
  const ServerLink& link = links_[placement_.parts[part].server];
  return fmt::format("'{}' of step {} from {}{}", records_.TensorOf(part), pushes_[part].step, link.Describe(),
                     !link.up()      ? ", which cannot be reached: " + link.link().last_error()
                     : !link.ready() ? ", which was restarted and waits for the chief to refill it"
                                     : "");
}

std::string KvClientCore::DescribeLoans() const {
  const std::vector<int> servers = borrowed_.Borrowers();
  MutexLock lock(&mutex_);
  std::string text;
  for (const int server : servers) text += fmt::format("{}{}", text.empty() ? "gradients for " : ", ", links_[server].Describe());
  return text.empty() ? text : text + ", not read yet";
}

bool KvClientCore::HasEmpty() const {
  return std::ranges::any_of(links_, [](const ServerLink& link) { return link.IsEmpty(); });
}

std::vector<int> KvClientCore::EmptyServers() const {
  MutexLock lock(&mutex_);
  std::vector<int> empty;
  for (const ServerLink& link : links_) {
    if (link.IsEmpty()) empty.push_back(link.server());
  }
  return empty;
}

bool KvClientCore::Reached(KvGoal goal) const {
  if (goal == KvGoal::kReleased) {
    return std::ranges::any_of(links_, [](const ServerLink& link) { return link.ready() && link.state().released; });
  }
  if (goal == KvGoal::kNobodyTrains && sync()) {
    // A server that was restarted has not heard of workers that had left before. One that stayed
    // has.
    return std::ranges::none_of(links_, &ServerLink::ready) ||
           std::ranges::any_of(links_, [](const ServerLink& link) { return link.ready() && link.state().training == 0; });
  }
  return std::ranges::all_of(links_, [&](const ServerLink& link) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    switch (goal) {
      case KvGoal::kAllUp:
        return link.up();
      case KvGoal::kAllReady:
        return link.ready();
      case KvGoal::kPulled:
        return pull_.IsComplete(link.server());
      case KvGoal::kNobodyTrains:
        return link.ready() && link.state().training == 0;
      case KvGoal::kAllEnded:
        return link.ready() && link.state().end_step >= 0;
      case KvGoal::kAllReleased:
        return link.ready() && link.state().released;
      case KvGoal::kReleased:
        break;
    }
    return false;
  });
}

bool KvClientCore::Await(KvGoal goal, absl::Duration at_most) {
  const auto something = [this, goal]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Reached(goal) || !error_.ok() || (sync() ? IsLineLost() : options_.chief && goal != KvGoal::kAllUp && HasEmpty());
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&something), at_most);
  return Reached(goal);
}

std::string KvClientCore::DescribeNotReady() const {
  MutexLock lock(&mutex_);
  std::string text;
  for (const ServerLink& link : links_) {
    if (!link.ready()) text += (text.empty() ? "" : "; ") + link.DescribeNotReady(options_.chief);
  }
  return text.empty() ? "nothing" : text;
}

int64_t KvClientCore::worker_step() const {
  MutexLock lock(&mutex_);
  int64_t lowest = -1;
  for (const ServerLink& link : links_) {
    const int64_t step = link.state().worker_step;
    if (link.ready() && step >= 0 && (lowest < 0 || step < lowest)) lowest = step;
  }
  return lowest;
}

bool KvClientCore::worker_known() const {
  MutexLock lock(&mutex_);
  return std::ranges::any_of(links_, [](const ServerLink& link) { return link.ready() && link.state().worker_known; });
}

bool KvClientCore::any_ready() const {
  MutexLock lock(&mutex_);
  return std::ranges::any_of(links_, [](const ServerLink& link) { return link.ready(); });
}

bool KvClientCore::released() const {
  MutexLock lock(&mutex_);
  return Reached(KvGoal::kReleased);
}

bool KvClientCore::ended() const {
  MutexLock lock(&mutex_);
  return ended_at_ >= 0;
}

int64_t KvClientCore::global_step() const {
  MutexLock lock(&mutex_);
  return global_step_;
}

int64_t KvClientCore::planned_steps() const {
  MutexLock lock(&mutex_);
  const auto ready = std::ranges::find_if(links_, [](const ServerLink& link) { return link.ready(); });
  return ready == links_.end() ? -1 : ready->state().planned;
}

int KvClientCore::TakeRefilled() {
  MutexLock lock(&mutex_);
  return std::exchange(refilled_, 0);
}

void KvClientCore::SetPosition(int64_t step) {
  MutexLock lock(&mutex_);
  position_ = step;
}

int64_t KvClientCore::position() const {
  MutexLock lock(&mutex_);
  return position_;
}

}  // namespace trainyard::engine
