#include "operator/page/job_feed.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "operator/page/job_view.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// One line, as an event needs it. Texts that are no UTF-8 are mended.
std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string Event(std::string_view name, std::string_view data) { return fmt::format("event: {}\ndata: {}\n\n", name, data); }

std::shared_ptr<const std::string> Shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

}  // namespace

class JobFeed::ListSource : public EventSource {
 public:
  explicit ListSource(JobFeed& feed) : feed_(feed) {
    MutexLock lock(feed_.mutex_);
    ++feed_.streams_;
  }
  ~ListSource() override {
    MutexLock lock(feed_.mutex_);
    --feed_.streams_;
  }
  std::shared_ptr<const std::string> Next() override { return feed_.Since(version_); }

 private:
  JobFeed& feed_;
  uint64_t version_ = 0;
};

class JobFeed::JobSource : public EventSource {
 public:
  JobSource(JobFeed& feed, std::string key) : feed_(feed), key_(std::move(key)) {}

  std::shared_ptr<const std::string> Next() override {
    const std::optional<std::string> job = feed_.Job(key_);
    std::string event = job ? Event("job", *job) : Event("gone", "{}");
    const size_t hash = std::hash<std::string>()(event);
    if (hash == last_) return nullptr;
    if (!std::exchange(last_, hash)) event.insert(0, Event("clock", std::to_string(absl::ToUnixSeconds(feed_.clock_.Now()))));
    return Shared(std::move(event));
  }

 private:
  JobFeed& feed_;
  const std::string key_;
  std::optional<size_t> last_;  // the hash of the last event: the text itself may be long
};

void JobFeed::Look() {
  const auto jobs = jobs_.All();
  MutexLock lock(mutex_);
  ++looks_;
  std::string changed;
  std::string gone;
  bool is_new = false;
  const auto append = [](std::string& list, std::string_view item) { list.append(list.empty() ? "" : ",").append(item); };
  for (const auto& job : jobs) {
    auto found = entries_.find(std::string_view(job->meta.uid));
    if (found == entries_.end()) found = entries_.try_emplace(job->meta.uid).first;
    Entry& entry = found->second;
    entry.seen = looks_;
    if (entry.job == job) continue;
    is_new = true;
    const bool progressed = job->status.progress && (entry.job == nullptr || entry.job->status.progress != job->status.progress);
    entry.job = job;
    if (progressed) entry.curve.Add(*job->status.progress);
    entry.text.clear();
    if (streams_ > 0) append(changed, TextOf(entry));
  }
  if (entries_.size() > jobs.size()) {
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (entry->second.seen == looks_) {
        ++entry;
        continue;
      }
      append(gone, Dump(entry->first));
      entry = entries_.erase(entry);
      is_new = true;
    }
  }
  if (!is_new) return;
  ++version_;
  list_ = list_event_ = change_event_ = nullptr;
  if (streams_ > 0) change_event_ = Shared(Event("changed", fmt::format(R"({{"jobs":[{}],"gone":[{}]}})", changed, gone)));
}

const std::string& JobFeed::TextOf(Entry& entry) {
  if (entry.text.empty()) entry.text = Dump(SummaryOf(*entry.job, entry.curve));
  return entry.text;
}

std::string JobFeed::AllJobs() {
  std::string text = fmt::format(R"({{"now":{},"jobs":[)", absl::ToUnixSeconds(clock_.Now()));
  bool first = true;
  for (auto& [uid, entry] : entries_) {
    if (!std::exchange(first, false)) text += ',';
    text += TextOf(entry);
  }
  return text + "]}";
}

std::shared_ptr<const std::string> JobFeed::Jobs() {
  MutexLock lock(mutex_);
  if (list_ == nullptr) list_ = Shared(AllJobs());
  return list_;
}

std::shared_ptr<const std::string> JobFeed::Since(uint64_t& version) {
  MutexLock lock(mutex_);
  const uint64_t seen = std::exchange(version, version_);
  if (seen == version_) return nullptr;
  if (seen + 1 == version_ && change_event_ != nullptr) return change_event_;
  if (list_event_ == nullptr) list_event_ = Shared(Event("jobs", AllJobs()));
  return list_event_;
}

std::optional<std::string> JobFeed::Job(std::string_view key) {
  const auto job = jobs_.Get(key);
  if (job == nullptr) return std::nullopt;
  LossCurve curve;
  {
    MutexLock lock(mutex_);
    const auto found = entries_.find(std::string_view(job->meta.uid));
    if (found != entries_.end()) curve = found->second.curve;
  }
  return Dump(DetailOf(*job, pods_.ByOwner(job->meta.uid), curve));
}

std::unique_ptr<EventSource> JobFeed::WatchJobs() { return std::make_unique<ListSource>(*this); }

std::unique_ptr<EventSource> JobFeed::WatchJob(std::string key) { return std::make_unique<JobSource>(*this, std::move(key)); }

}  // namespace trainyard::control
