// GroupCore: the streams and the records of peers. Membership is in group_members.cc, operations
// are in group_work.cc.
#include "trainer/collectives/group_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/transport/pace_record.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kDialDeadline = absl::Seconds(5);
// A peer is at most kBucketsUnderWay buckets ahead of the first one that is under way here, and as
// many are under way.
constexpr size_t kWindowBytes = 2 * kBucketsUnderWay * kBucketBytes + (size_t{2} << 20);

bool IsRefusal(const absl::Status& status) { return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status); }

}  // namespace

GroupCore::GroupCore(RankGroupOptions options, Transport& transport)
    : options_(std::move(options)), transport_(transport), hellos_(options_.timeouts.hello) {
  MutexLock lock(&mutex_);
  for (const int peer : PeersOf(options_.algorithm, options_.rank, ranks())) {
    peers_.emplace(peer, Peer(peer, options_.heartbeat_period, options_.timeouts.silence));
  }
}

void GroupCore::Do(Out out) {
  for (auto& [stream, records] : out.sends) stream->Send(std::move(records));
  for (auto& [stream, status] : out.closes) stream->Close(status);
  out.sends.clear();
  out.dropped.clear();
  if (out.work) Work();
}

std::string GroupCore::Name(int rank) const { return fmt::format("rank {} ({})", rank, options_.hosts[rank]); }

Record GroupCore::Control(WireOp op, int64_t step) const {
  Record record;
  record.header.op = op;
  record.header.epoch = group_;
  record.header.sender = static_cast<uint32_t>(options_.rank);
  record.header.step = static_cast<uint64_t>(step);
  record.header.fingerprint = options_.fingerprint;
  return record;
}

GroupCore::Peer* GroupCore::PeerOf(const Stream* stream) {
  for (auto& [rank, peer] : peers_) {
    if (peer.stream.get() == stream || peer.asking.get() == stream || peer.link.stream().get() == stream) return &peer;
  }
  return nullptr;
}

void GroupCore::SendTo(Peer& peer, Record record, Out& out) {
  if (peer.stream == nullptr) {
    peer.waiting.push_back(std::move(record));
    return;
  }
  std::vector<Record> records;
  records.push_back(std::move(record));
  out.sends.emplace_back(peer.stream, std::move(records));
}

void GroupCore::ToAll(WireOp op, int64_t step, Out& out) {
  for (auto& [rank, peer] : peers_) {
    if (peer.stream != nullptr) SendTo(peer, Control(op, step), out);
  }
}

void GroupCore::Attach(Peer& peer, std::shared_ptr<Stream> stream, Out& out) {
  peer.stream = std::move(stream);
  peer.said_goodbye = peer.told_goodbye = false;
  if (!peer.waiting.empty()) out.sends.emplace_back(peer.stream, std::exchange(peer.waiting, {}));
}

absl::Time GroupCore::Tend(absl::Time now) {
  Out out;
  std::vector<std::shared_ptr<Stream>> given_up;
  absl::Time next = now + options_.heartbeat_period;
  {
    MutexLock lock(&mutex_);
    tend_ = false;
    if (shut_) return next;
    for (std::shared_ptr<Stream>& late : hellos_.TakeLate(now)) {
      out.closes.emplace_back(std::move(late),
                              absl::DeadlineExceededError(fmt::format("no join within {}", absl::FormatDuration(options_.timeouts.hello))));
    }
    if (now >= next_heartbeat_) {
      next_heartbeat_ = now + options_.heartbeat_period;
      const auto activity = static_cast<int64_t>(activity_.load(std::memory_order_relaxed) + relayed_);
      for (auto& [rank, peer] : peers_) {
        const std::shared_ptr<Stream>& stream = peer.stream != nullptr ? peer.stream : peer.asking;
        if (stream == nullptr) continue;
        out.sends.push_back({stream, {Control(WireOp::kHeartbeat, activity)}});
        if (rank == 0 && peer.stream != nullptr && pace_) SendTo(peer, WithPace(Control(WireOp::kPace), *pace_), out);
      }
    }
    next = std::min(next, next_heartbeat_);
    for (auto& [rank, peer] : peers_) {
      const bool wanted = rank == 0 ? state_ != State::kApart : state_ == State::kFormed && !finishing_;
      if (rank > options_.rank || !wanted || peer.stream != nullptr) continue;
      if (peer.link.Unanswered(now)) {
        given_up.push_back(peer.link.stream());
        peer.link.Lost(absl::UnavailableError(fmt::format("no answer within {}", absl::FormatDuration(options_.timeouts.silence))), now);
      }
      if (peer.link.DialDue(now)) {
        // Under the lock, so that what the stream tells finds the peer that it belongs to.
        peer.link.Dialled(transport_.Dial(options_.hosts[rank], shared_from_this(), kDialDeadline), now);
        ++streams_;
        peer.link.stream()->SetWindow(kWindowBytes);
        peer.link.stream()->Send({JoinRecord()});
      }
      if (!peer.link.up()) next = std::min(next, peer.link.NextDue());
    }
  }
  for (const std::shared_ptr<Stream>& stream : given_up) stream->Abort();
  Do(std::move(out));
  return next;
}

bool GroupCore::AwaitTend(absl::Time next) {
  const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return shut_ || tend_; };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(&due), next);
  return !shut_;
}

void GroupCore::OnOpened(const std::shared_ptr<Stream>& stream) {
  stream->SetWindow(kWindowBytes);
  MutexLock lock(&mutex_);
  ++streams_;
  hellos_.Opened(stream, RealClock().Now());
}

void GroupCore::OnMessage(const std::shared_ptr<Stream>& stream, std::span<Record> records) {
  Out out;
  {
    MutexLock lock(&mutex_);
    if (shut_) return;  // a peer that hears only now that this rank leaves has done nothing wrong
    for (Record& record : records) {
      Peer* peer = PeerOf(stream.get());
      if (peer == nullptr && !hellos_.Forget(stream.get())) break;  // of a stream that was given up
      const absl::Status status = peer == nullptr ? HandleFirst(stream, record, out) : Handle(*peer, stream, record, out);
      if (status.ok()) continue;
      out.closes.emplace_back(stream, status);
      if (peer == nullptr) break;
      const bool of_group = peer->stream == stream;
      if (of_group) peer->stream = nullptr;
      if (peer->asking == stream) peer->asking = nullptr;
      if (peer->link.stream() == stream) peer->link.Lost(status, RealClock().Now());
      if (of_group) Fail(status, out);
      break;
    }
  }
  Do(std::move(out));
}

absl::Status GroupCore::Handle(Peer& peer, const std::shared_ptr<Stream>& stream, Record& record, Out& out) {
  const WireHeader& header = record.header;
  const auto refuse = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("{}: '{}': {}", Name(peer.rank), WireOpName(header.op), what));
  };
  if (header.sender != static_cast<uint32_t>(peer.rank))
    return refuse(fmt::format("found sender {}, expected {}", header.sender, peer.rank));
  if (header.fingerprint != options_.fingerprint) {
    return refuse(fmt::format("found the model {:016x}, expected {:016x}", header.fingerprint, options_.fingerprint));
  }
  if (header.op == WireOp::kHeartbeat) {
    if (peer.link.stream() == stream && !peer.link.up()) peer.link.Answered(RealClock().Now());
    if (std::exchange(peer.activity, header.step) == header.step) return absl::OkStatus();
    const bool working = operation_ != nullptr && std::ranges::count(operation_->Awaited(), peer.rank) > 0;
    if (working) ++relayed_;
    if (working || (peer.rank == 0 && (state_ == State::kJoining || finishing_))) progress_at_ = options_.clock->Now();
    return absl::OkStatus();
  }
  if (peer.asking == stream) return refuse("expected a heartbeat before the group has formed");
  const bool from_chief = peer.rank == 0;
  // A peer's threads may send what follows its 'form' or 'finished' before that.
  const bool of_group = state_ == State::kFormed && header.epoch == group_ && peer.rank > 0;
  if (peer.stream == nullptr && of_group && header.op != WireOp::kForm) Attach(peer, stream, out);
  const bool first = header.op == WireOp::kForm || header.op == WireOp::kFinished || (from_chief && header.op == WireOp::kRelease);
  if (peer.stream != stream && !first) return refuse("expected 'form' first");
  switch (header.op) {
    case WireOp::kForm:
      return OnForm(peer, stream, record, out);
    case WireOp::kFinished:
      if (!from_chief || state_ != State::kJoining) return refuse("expected from rank 0, in answer to a join");
      state_ = State::kFormed;
      formed_ = {.step = static_cast<int64_t>(header.step), .finished = true};
      finishing_ = true;
      Attach(peer, stream, out);
      return absl::OkStatus();
    case WireOp::kSum:
    case WireOp::kResult:
      return OnPart(peer, record, out);
    case WireOp::kAsk:
      return OnAsk(peer, header, out);
    case WireOp::kPace:
      return OnPace(peer, record);
    case WireOp::kEnd:
      if (!from_chief) return refuse("expected from rank 0");
      ended_at_ = static_cast<int64_t>(header.step);
      return absl::OkStatus();
    case WireOp::kRelease:
      if (!from_chief) return refuse("expected from rank 0");
      released_ = true;
      return absl::OkStatus();
    case WireOp::kDone:
      peer.said_goodbye = true;
      return absl::OkStatus();
    default:
      return refuse("expected no such record between ranks");
  }
}

absl::Status GroupCore::OnPace(Peer& peer, const Record& record) {
  if (options_.rank != 0) return absl::InvalidArgumentError(fmt::format("{}: 'pace' is for rank 0", Name(peer.rank)));
  TY_ASSIGN_OR_RETURN(WorkerPace pace, PaceOf(record, ranks()));
  if (pace.worker != peer.rank) return absl::InvalidArgumentError(fmt::format("{}: 'pace' of rank {}", Name(peer.rank), pace.worker));
  peer.pace = std::move(pace);
  return absl::OkStatus();
}

void GroupCore::TellPace(WorkerPace pace) {
  MutexLock lock(&mutex_);
  pace_ = std::move(pace);
}

std::vector<WorkerPace> GroupCore::paces() const {
  MutexLock lock(&mutex_);
  std::vector<WorkerPace> paces;
  if (pace_) paces.push_back(*pace_);
  for (const auto& [rank, peer] : peers_) {
    if (peer.pace) paces.push_back(*peer.pace);
  }
  return paces;
}

void GroupCore::OnClosed(const std::shared_ptr<Stream>& stream, const absl::Status& status) {
  Out out;
  {
    MutexLock lock(&mutex_);
    --streams_;
    const StreamTraffic traffic = stream->traffic();
    traffic_.bytes_sent += traffic.bytes_sent;
    traffic_.bytes_received += traffic.bytes_received;
    hellos_.Forget(stream.get());
    Peer* const peer = PeerOf(stream.get());
    if (peer == nullptr) return;
    if (peer->asking == stream) {
      peer->asking = nullptr;
      return;
    }
    const bool of_group = peer->stream == stream;
    if (of_group) peer->stream = nullptr;
    if (peer->link.stream() == stream) peer->link.Lost(status, RealClock().Now());
    peer->lost_at = RealClock().Now();
    tend_ = true;
    if (of_group) {
      OnLost(*peer, status, out);
    } else if (IsRefusal(status)) {
      Fail(absl::Status(status.code(), fmt::format("{} refuses this rank: {}", Name(peer->rank), std::string(status.message()))), out);
    }
  }
  Do(std::move(out));
}

void GroupCore::OnTurnedAway(const std::string& peer, const absl::Status& why) { refusals_.Add(own_name(), peer, why, RealClock().Now()); }

void GroupCore::OnLost(Peer& peer, const absl::Status& status, Out& out) {
  if (!IsNeeded(peer)) return;
  if (IsRefusal(status)) {
    return Fail(absl::Status(status.code(), fmt::format("{} gave the group up: {}", Name(peer.rank), std::string(status.message()))), out);
  }
  const std::string what = absl::IsAborted(status) ? fmt::format("{} gave the group up: {}", Name(peer.rank), std::string(status.message()))
                                                   : fmt::format("{} is lost: {}", Name(peer.rank),
                                                                 status.ok() ? "it ended the stream" : std::string(status.message()));
  const std::string during = operation_ != nullptr ? fmt::format(", in {}", operation_->Describe()) : "";
  Break(absl::AbortedError(what + during), out);
}

void GroupCore::Fail(const absl::Status& status, Out& out) {
  if (state_ == State::kFormed) Break(absl::AbortedError(status.message()), out);
  status_ = status;
}

void GroupCore::Break(const absl::Status& why, Out& out) {
  if (state_ != State::kFormed) return;
  state_ = State::kApart;
  status_ = why;
  constexpr size_t kLongest = 500;
  const absl::Status told = absl::AbortedError(why.message().substr(0, kLongest));
  for (auto& [rank, peer] : peers_) {
    const std::shared_ptr<Stream> stream = peer.stream != nullptr ? peer.stream : peer.link.stream();
    if (stream != nullptr) out.closes.emplace_back(stream, told);
    peer.stream = nullptr;
    if (peer.link.stream() != nullptr) peer.link.Lost(told, RealClock().Now());
    for (Record& record : peer.waiting) out.dropped.push_back(std::move(record));
    peer.waiting.clear();
  }
  for (auto& [rank, record] : early_) out.dropped.push_back(std::move(record));
  early_.clear();
}

void GroupCore::Shut(bool goodbye) {
  Out out;
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    if (std::exchange(shut_, true)) goodbye = false;
    if (goodbye) ToAll(WireOp::kDone, 0, out);
    state_ = State::kApart;
    if (status_.ok()) status_ = absl::AbortedError("this rank has left the group");
    for (auto& [rank, peer] : peers_) {
      for (std::shared_ptr<Stream> stream : {peer.stream, peer.asking, peer.link.stream()}) {
        if (stream != nullptr) streams.push_back(std::move(stream));
      }
      for (Record& record : peer.waiting) out.dropped.push_back(std::move(record));
      peer.waiting.clear();
    }
  }
  Do(std::move(out));
  for (const std::shared_ptr<Stream>& stream : streams) goodbye ? stream->Close(absl::OkStatus()) : stream->Abort();
}

bool GroupCore::AwaitShut(absl::Time deadline) {
  const auto all = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_ == 0; };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(&all), deadline);
}

StreamTraffic GroupCore::traffic() const {
  MutexLock lock(&mutex_);
  StreamTraffic sum = traffic_;
  for (const auto& [rank, peer] : peers_) {
    const std::shared_ptr<Stream>& stream = peer.stream != nullptr ? peer.stream : peer.asking;
    if (stream == nullptr) continue;
    const StreamTraffic traffic = stream->traffic();
    sum.bytes_sent += traffic.bytes_sent;
    sum.bytes_received += traffic.bytes_received;
  }
  return sum;
}

}  // namespace trainyard::engine
