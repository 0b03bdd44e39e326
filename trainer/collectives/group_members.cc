// GroupCore: who has joined, what group stands, how it ends.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/collectives/group_core.h"

namespace trainyard::engine {
namespace {

uint32_t NewGroup(uint32_t old) {
  std::random_device random;
  uint32_t group = 0;
  while (group == 0 || group == old) group = random();
  return group;
}

}  // namespace

Record GroupCore::JoinRecord() const {
  Record record = Control(WireOp::kJoin);
  if (state_ != State::kFormed) record.header.epoch = 0;
  record.payload = Payload::OfText(ToJson(request_));
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

Record GroupCore::FormRecord() const {
  Record record = Control(WireOp::kForm, formed_.step);
  record.header.key = static_cast<uint32_t>(formed_.root);
  record.header.slot = static_cast<uint16_t>(per_node_);
  if (one_device_kind_) record.header.flags |= kWireFlagOneKind;
  if (formed_.again) record.header.flags |= kWireFlagAgain;
  record.payload = Payload::OfText(OriginJson(formed_.origin).dump());
  record.header.length = static_cast<uint32_t>(record.payload.size());
  return record;
}

int GroupCore::PerNode() const {
  std::vector<std::string> nodes(options_.hosts.size());
  nodes[0] = options_.node;
  for (const auto& [rank, peer] : peers_) nodes[rank] = peer.request.node;
  return LayoutOf(nodes).per_node;
}

bool GroupCore::OneDeviceKind() const {
  const std::string& kind = options_.device_kind;
  return !kind.empty() && std::ranges::all_of(peers_, [&](const auto& entry) { return entry.second.request.device_kind == kind; });
}

bool GroupCore::IsNeeded(const Peer& peer) const {
  return state_ == State::kFormed && !peer.said_goodbye && !(finishing_ && peer.rank != 0);
}

void GroupCore::StartJoining(const JoinRequest& request) {
  MutexLock lock(&mutex_);
  if (shut_ || (!status_.ok() && !absl::IsAborted(status_))) return;
  state_ = State::kJoining;
  status_ = absl::OkStatus();
  request_ = request;
  formed_ = {};
  finishing_ = released_ = false;
  ended_at_ = -1;
  tend_ = true;
}

absl::Status GroupCore::HandleFirst(const std::shared_ptr<Stream>& stream, const Record& record, Out& out) {
  const WireHeader& header = record.header;
  if (header.op != WireOp::kJoin) {
    return absl::InvalidArgumentError(
        fmt::format("{}: found '{}' as the first record, expected 'join'", stream->peer(), WireOpName(header.op)));
  }
  const auto rank = static_cast<int>(header.sender);
  const auto found = peers_.find(rank);
  if (found == peers_.end() || rank <= options_.rank) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} joins at rank {} of {}, which it has nothing to exchange with", header.sender, options_.rank, ranks()));
  }
  if ((header.epoch == 0) != (options_.rank == 0)) {
    return absl::InvalidArgumentError(
        fmt::format("rank {} joins group {} at rank {}: rank 0 alone makes groups", rank, header.epoch, options_.rank));
  }
  TY_ASSIGN_OR_RETURN(JoinRequest request, ParseJoinRequest(record.payload.ToString()));
  TY_RETURN_IF_ERROR(CheckAgreement(options_.agreement, options_.rank, request.agreement, rank));
  if (header.fingerprint != options_.fingerprint) {
    return absl::FailedPreconditionError(fmt::format("the model differs: rank {} has {:016x}, rank {} has {:016x}", options_.rank,
                                                     options_.fingerprint, rank, header.fingerprint));
  }
  stream->Trust();
  Peer& peer = found->second;
  if (peer.stream != nullptr) {
    if (IsNeeded(peer)) {
      const std::string why = request.because.empty() ? "it was started anew" : request.because;
      Break(absl::AbortedError(fmt::format("{} joins anew: {}", Name(rank), why)), out);
    } else {
      out.closes.emplace_back(std::exchange(peer.stream, nullptr), absl::AbortedError("another stream takes its place"));
    }
  }
  if (peer.asking != nullptr) out.closes.emplace_back(peer.asking, absl::AbortedError("another stream takes its place"));
  peer.asking = stream;
  peer.asks_for = header.epoch;
  peer.request = std::move(request);
  peer.activity = 0;
  peer.pace.reset();
  if (options_.rank > 0) {
    if (state_ == State::kFormed && peer.asks_for == group_) TakeAsking(peer, out);
  } else if (finished_at_ >= 0) {
    TellFinished(peer, out);
  } else {
    out.sends.push_back({stream, {Control(WireOp::kHeartbeat)}});
  }
  return absl::OkStatus();
}

void GroupCore::TellFinished(Peer& peer, Out& out) {
  if (peer.asking == nullptr) return;
  Attach(peer, std::exchange(peer.asking, nullptr), out);
  SendTo(peer, Control(WireOp::kFinished, finished_at_), out);
  if (released_) SendTo(peer, Control(WireOp::kRelease, finished_at_), out);
}

void GroupCore::TakeAsking(Peer& peer, Out& out) {
  if (peer.asking == nullptr) return;
  if (peer.asks_for != group_) {
    out.closes.emplace_back(std::exchange(peer.asking, nullptr), absl::AbortedError("the group is no more"));
    return;
  }
  std::shared_ptr<Stream> stream = std::exchange(peer.asking, nullptr);
  out.sends.push_back({stream, {FormRecord()}});
  Attach(peer, std::move(stream), out);
}

absl::Status GroupCore::OnForm(Peer& peer, const std::shared_ptr<Stream>& stream, const Record& record, Out& out) {
  const WireHeader& header = record.header;
  if (peer.stream == stream && header.epoch == group_ && peer.rank > 0) return absl::OkStatus();  // it was overtaken
  if (peer.link.stream() != stream || peer.stream != nullptr) {
    return absl::InvalidArgumentError(fmt::format("{}: 'form' without having been asked", Name(peer.rank)));
  }
  if (!peer.link.up()) peer.link.Answered(RealClock().Now());
  if (peer.rank > 0) {
    if (state_ == State::kFormed && header.epoch == group_) Attach(peer, stream, out);
    return absl::OkStatus();
  }
  if (state_ != State::kJoining || header.epoch == 0) {
    return absl::InvalidArgumentError(fmt::format("{}: group {} was not asked for", Name(peer.rank), header.epoch));
  }
  if (!IsLayout(ranks(), header.slot)) {
    return absl::InvalidArgumentError(fmt::format("{}: 'form' of {} ranks per node, expected a power of two that divides {} ranks",
                                                  Name(peer.rank), header.slot, ranks()));
  }
  const uint32_t root = header.key;
  if (root >= static_cast<uint32_t>(ranks())) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'form' with the state of rank {}, expected one of {} ranks", Name(peer.rank), root, ranks()));
  }
  if (root == static_cast<uint32_t>(options_.rank) && static_cast<uint64_t>(request_.furthest) != header.step) {
    return absl::InvalidArgumentError(fmt::format("{}: 'form' with this rank's state of step {}, expected step {} (-1: it has none)",
                                                  Name(peer.rank), header.step, request_.furthest));
  }
  const bool one_kind = (header.flags & kWireFlagOneKind) != 0;
  if (one_kind && options_.device_kind.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'form' of ranks with one kind of device, expected none, since this rank has no device", Name(peer.rank)));
  }
  const absl::StatusOr<InputOrigin> origin = ParseOrigin(ParseJson(record.payload.ToString()));
  if (!origin.ok()) return WithContext(origin.status(), fmt::format("{}: 'form'", Name(peer.rank)));
  per_node_ = header.slot;
  one_device_kind_ = one_kind;
  state_ = State::kFormed;
  group_ = header.epoch;
  formed_ = {.step = static_cast<int64_t>(header.step),
             .root = static_cast<int>(root),
             .origin = *origin,
             .again = (header.flags & kWireFlagAgain) != 0};
  last_ = {.step = kFirstMeasurement, .kind = OperationId::Kind::kState};
  Attach(peer, stream, out);
  for (auto& [rank, other] : peers_) {
    if (rank > options_.rank) TakeAsking(other, out);
  }
  tend_ = true;
  return absl::OkStatus();
}

Gathered GroupCore::TellGathered() const {
  MutexLock lock(&mutex_);
  Gathered gathered;
  for (const auto& [rank, peer] : peers_) {
    if (peer.request.furthest > gathered.furthest) {
      gathered.furthest = peer.request.furthest;
      gathered.rank = rank;
      gathered.origin = peer.request.origin;
    }
    gathered.from_checkpoint = gathered.from_checkpoint || peer.request.from_checkpoint;
    if (gathered.because.empty()) gathered.because = peer.request.because;
  }
  return gathered;
}

void GroupCore::Form(const Formed& formed) {
  Out out;
  {
    MutexLock lock(&mutex_);
    state_ = State::kFormed;
    group_ = NewGroup(group_);
    formed_ = formed;
    per_node_ = PerNode();
    one_device_kind_ = OneDeviceKind();
    last_ = {.step = kFirstMeasurement, .kind = OperationId::Kind::kState};
    int lost = -1;
    for (auto& [rank, peer] : peers_) {
      if (peer.asking == nullptr) lost = rank;
      peer.asks_for = group_;
      TakeAsking(peer, out);
    }
    if (lost >= 0) Break(absl::AbortedError(fmt::format("{} is lost before the group has formed", Name(lost))), out);
  }
  Do(std::move(out));
}

void GroupCore::Finish(int64_t step) {
  Out out;
  {
    MutexLock lock(&mutex_);
    if (finished_at_ < 0) finished_since_ = RealClock().Now();
    finished_at_ = step;
    finishing_ = true;
    for (auto& [rank, peer] : peers_) TellFinished(peer, out);
  }
  Do(std::move(out));
}

void GroupCore::FinishHere() {
  MutexLock lock(&mutex_);
  finishing_ = true;
}

void GroupCore::Leave(const std::string& reason) {
  Out out;
  {
    MutexLock lock(&mutex_);
    Break(absl::AbortedError(reason), out);
  }
  Do(std::move(out));
}

void GroupCore::End(int64_t step) {
  Out out;
  {
    MutexLock lock(&mutex_);
    ended_at_ = step;
    ToAll(WireOp::kEnd, step, out);
  }
  Do(std::move(out));
  Finish(step);
}

void GroupCore::Release() {
  Out out;
  {
    MutexLock lock(&mutex_);
    released_ = true;
    ToAll(WireOp::kRelease, finished_at_, out);
  }
  Do(std::move(out));
}

bool GroupCore::SayGoodbye() {
  Out out;
  {
    MutexLock lock(&mutex_);
    Peer& chief = peers_.at(0);
    if (chief.stream == nullptr) return chief.said_goodbye;
    if (!std::exchange(chief.told_goodbye, true)) SendTo(chief, Control(WireOp::kDone), out);
  }
  Do(std::move(out));
  return true;
}

bool GroupCore::AwaitFormed(absl::Duration at_most) {
  const auto formed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ == State::kFormed || !status_.ok(); };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&formed), at_most);
}

bool GroupCore::AwaitReleased(absl::Duration at_most) {
  const auto released = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return released_ || !status_.ok(); };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&released), at_most) && released_;
}

bool GroupCore::AwaitGoodbye(absl::Duration at_most) {
  const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return peers_.at(0).said_goodbye || absl::IsAborted(status_); };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&over), at_most) && peers_.at(0).said_goodbye;
}

bool GroupCore::AwaitApart(absl::Duration at_most) {
  const auto apart = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return state_ != State::kFormed || peers_.at(0).said_goodbye; };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&apart), at_most);
}

bool GroupCore::AwaitAllJoined(absl::Duration at_most) {
  const auto joined = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::all_of(peers_, [](const auto& entry) { return entry.second.asking != nullptr; });
  };
  MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&joined), at_most);
}

bool GroupCore::AwaitAllGone(absl::Duration patience, absl::Duration at_most) {
  const auto gone = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::ranges::all_of(peers_, [](const auto& entry) { return entry.second.said_goodbye; });
  };
  MutexLock lock(&mutex_);
  if (mutex_.AwaitWithTimeout(absl::Condition(&gone), at_most)) return true;
  const absl::Time long_ago = RealClock().Now() - patience;
  return finished_since_ <= long_ago && std::ranges::all_of(peers_, [long_ago](const auto& entry) {
           const Peer& peer = entry.second;
           return peer.said_goodbye || (peer.stream == nullptr && peer.lost_at <= long_ago);
         });
}

absl::Status GroupCore::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

bool GroupCore::released() const {
  MutexLock lock(&mutex_);
  return released_;
}

RankLayout GroupCore::layout() const {
  MutexLock lock(&mutex_);
  return {ranks(), per_node_};
}

bool GroupCore::one_device_kind() const {
  MutexLock lock(&mutex_);
  return one_device_kind_;
}

Formed GroupCore::formed() const {
  MutexLock lock(&mutex_);
  return formed_;
}

std::string GroupCore::DescribeAbsent() const {
  MutexLock lock(&mutex_);
  std::string text;
  for (const auto& [rank, peer] : peers_) {
    std::string why;
    if (options_.rank == 0 && peer.asking == nullptr && peer.stream == nullptr) why = "has not joined";
    if (rank == 0 && peer.stream == nullptr) why = peer.link.up() ? "connected, but it has formed no group yet" : peer.link.last_error();
    if (!why.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", Name(rank), why);
  }
  return text;
}

}  // namespace trainyard::engine
