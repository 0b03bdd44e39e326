#include "trainer/kvstore/members.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

Members::Members(const MembersOptions& options, absl::Time now) : options_(options), awaited_(options.hello), workers_(options.places) {
  for (int i = 0; i < options.workers; ++i) {
    workers_[i].member = true;
    workers_[i].lost_since = now;
  }
}

std::shared_ptr<Stream> Members::Join(const std::shared_ptr<Stream>& stream, const Hello& hello, absl::Time now) {
  awaited_.Forget(stream.get());
  stream->Trust();
  Peer& peer = peers_[stream.get()];
  peer = {.stream = stream, .worker = hello.worker, .chief = hello.chief, .heard = RealClock().Now()};
  if (hello.worker == kObserver) return nullptr;
  Member& known = workers_[hello.worker];
  std::shared_ptr<Stream> replaced = std::exchange(known.stream, stream);
  peer.joins = ++known.joins;
  known.member = true;
  known.done = false;
  known.left = hello.left;
  known.vocabulary = hello.vocabulary;
  known.settings = hello.settings;
  known.end = hello.end;
  if (hello.new_process) {
    known.process_since = now;
    known.activity = 0;
  }
  return replaced;
}

std::optional<Members::Gone> Members::Forget(const std::shared_ptr<Stream>& stream, absl::Time now) {
  const StreamTraffic traffic = stream->traffic();
  ended_traffic_.bytes_received += traffic.bytes_received;
  ended_traffic_.bytes_sent += traffic.bytes_sent;
  awaited_.Forget(stream.get());
  const auto found = peers_.find(stream.get());
  if (found == peers_.end()) return std::nullopt;
  Gone gone{.peer = std::move(found->second)};
  peers_.erase(found);
  if (gone.peer.worker == kObserver || workers_[gone.peer.worker].stream != stream) return gone;
  Member& worker = workers_[gone.peer.worker];
  worker.stream = nullptr;
  worker.lost_since = now;
  gone.lost = true;
  return gone;
}

const Peer* Members::Hear(const Stream* stream, absl::Time now) {
  const auto found = peers_.find(stream);
  if (found == peers_.end()) return nullptr;
  found->second.heard = now;
  return &found->second;
}

std::vector<Peer> Members::TakeSilent(absl::Time now) {
  std::vector<Peer> silent;
  for (auto& [pointer, peer] : peers_) {
    const StreamTraffic traffic = peer.stream->traffic();
    if (std::exchange(peer.bytes, traffic.bytes_sent + traffic.bytes_received) != peer.bytes) peer.heard = now;
    if (peer.heard + options_.silence <= now) silent.push_back(peer);
  }
  return silent;
}

void Members::ShowActivity(int worker, uint64_t activity, absl::Time now) {
  Member& known = workers_[worker];
  if (known.activity == activity) return;
  known.activity = activity;
  known.active_at = now;
}

int Members::CountTraining(absl::Time now) const {
  int training = 0;
  for (size_t i = 0; i < workers_.size(); ++i) training += IsTraining(static_cast<int>(i), now) ? 1 : 0;
  return training;
}

absl::Duration Members::Patience(const Member& worker) const {
  return released_ && worker.joins == 0 ? std::min(options_.silence, kDialledWithin) : options_.silence;
}

bool Members::IsTraining(int worker, absl::Time now) const {
  const Member& known = workers_[worker];
  const bool pushes = options_.mode == KvMode::kSync || !known.left;
  return known.member && pushes && !known.done && (known.stream != nullptr || known.lost_since + Patience(known) > now);
}

std::vector<int64_t> Members::Ends(size_t chief, absl::Time now) const {
  std::vector<int64_t> ends;
  for (const Member& worker : workers_) {
    const bool away = worker.left && worker.stream == nullptr && worker.lost_since + options_.silence <= now;
    ends.push_back(!worker.member || away ? -1 : worker.end >= 0 ? worker.end : workers_[chief].end);
  }
  return ends;
}

bool Members::AllDone() const {
  return std::ranges::all_of(workers_, [](const Member& worker) { return !worker.member || (worker.done && worker.stream == nullptr); });
}

absl::Status Members::DifferentVocabularies(std::string_view whose, size_t other, const std::string& theirs, int worker,
                                            const std::string& ours) {
  const auto text = [](const std::string& which) { return which.empty() ? "none" : which; };
  return absl::FailedPreconditionError(
      fmt::format("the vocabulary differs: {}worker {} has {}, worker {} has {}; it is made of the training text: give all workers the "
                  "same files and settings of data",
                  whose, other, text(theirs), worker, text(ours)));
}

absl::Status Members::CheckVocabulary(int worker, const std::string& vocabulary) const {
  for (size_t other = 0; other < workers_.size(); ++other) {
    const Member& known = workers_[other];
    if (other == static_cast<size_t>(worker) || known.stream == nullptr || known.vocabulary == vocabulary) continue;
    return DifferentVocabularies("", other, known.vocabulary, worker, vocabulary);
  }
  return absl::OkStatus();
}

absl::Status Members::DifferentSettings(std::string_view whose, const JobSettings& theirs, int worker, const JobSettings& ours) {
  const std::optional<SettingDifference> difference = FirstDifference(theirs, ours);
  if (!difference) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("spec.training.{} differs: {} has {}, worker {} has {}; start all with the same job file", difference->name, whose,
                  difference->ours, worker, difference->theirs));
}

absl::Status Members::CheckSettings(int worker, const JobSettings& settings) const {
  for (size_t other = 0; other < workers_.size(); ++other) {
    const Member& known = workers_[other];
    if (other == static_cast<size_t>(worker) || known.stream == nullptr) continue;
    TY_RETURN_IF_ERROR(DifferentSettings(fmt::format("worker {}", other), known.settings, worker, settings));
  }
  return absl::OkStatus();
}

std::string Members::Describe(int worker, absl::Time now) const {
  const Member& known = workers_[worker];
  if (known.stream != nullptr) return "connected, but has neither pushed nor done anything else";
  if (known.joins == 0) return "never connected";
  return fmt::format("lost for {}", absl::FormatDuration(absl::Trunc(now - known.lost_since, absl::Milliseconds(100))));
}

StreamTraffic Members::traffic() const {
  StreamTraffic sum = ended_traffic_;
  for (const auto& [pointer, peer] : peers_) {
    const StreamTraffic traffic = peer.stream->traffic();
    sum.bytes_received += traffic.bytes_received;
    sum.bytes_sent += traffic.bytes_sent;
  }
  return sum;
}

}  // namespace trainyard::engine
