#include "trainer/serve/version_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/find_checkpoint.h"

namespace trainyard::engine {

absl::StatusOr<std::vector<CheckpointMark>> CheckpointMarks(const std::string& path, bool best) {
  const CheckpointPlace place = FindCheckpoints(path);
  const CheckpointStore store(place.dir, 1);
  std::vector<std::string> paths;
  if (place.one || best) {
    paths.push_back(place.one ? path : store.BestPath());
  } else {
    TY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, store.Steps());
    for (const int64_t step : steps) paths.push_back(store.PathOf(step));
  }
  std::vector<CheckpointMark> marks;
  for (std::string& checkpoint : paths) {
    absl::StatusOr<std::string> digest = CheckpointStore::DigestOf(checkpoint);
    if (absl::IsNotFound(digest.status())) continue;  // not there yet, or removed just now
    marks.push_back({.path = std::move(checkpoint), .digest = std::move(digest).value_or("")});
  }
  return marks;
}

VersionWatch::~VersionWatch() {
  ending_.Notify();
  if (thread_.joinable()) thread_.join();
}

absl::Status VersionWatch::Poll() {
  std::erase_if(replaced_, [](const std::shared_ptr<ServedModel>& model) { return model.use_count() == 1; });
  TY_ASSIGN_OR_RETURN(const std::vector<CheckpointMark> marks, CheckpointMarks(path_, best_));
  std::erase_if(refused_, [&](const Refusal& refusal) { return std::ranges::find(marks, refusal.mark) == marks.end(); });
  absl::Status status = absl::NotFoundError(fmt::format("no {}checkpoint in {} yet", best_ ? "best " : "", path_));
  for (const CheckpointMark& mark : marks) {
    if (mark == served_) return absl::OkStatus();
    const auto refusal = std::ranges::find(refused_, mark, &Refusal::mark);
    if (refusal != refused_.end()) {
      status = refusal->why;
      continue;
    }
    status = Load(mark);
    if (status.ok()) {
      served_ = mark;
      return status;
    }
    std::error_code ignored;
    if (std::filesystem::exists(mark.path, ignored)) Refuse(mark, status);  // else it was removed meanwhile
  }
  return status;
}

void VersionWatch::Refuse(const CheckpointMark& mark, const absl::Status& why) {
  refused_.push_back({.mark = mark, .why = why});
  const MutexLock lock(&mutex_);
  ++counts_.refused;
  const std::string stays = current_ ? fmt::format(", version {} stays", current_->version()) : "";
  LogWarning("{} is not served{}: {}", mark.path, stays, std::string(why.message()));
}

absl::Status VersionWatch::Load(const CheckpointMark& mark) {
  TY_ASSIGN_OR_RETURN(std::shared_ptr<ServedModel> loaded, load_(mark.path));
  LogInfo("{} is served as version {}", mark.path, loaded->version());
  const MutexLock lock(&mutex_);
  current_.swap(loaded);
  if (loaded) replaced_.push_back(std::move(loaded));  // it still answers its requests
  ++counts_.loaded;
  return absl::OkStatus();
}

void VersionWatch::Start(absl::Duration period) {
  thread_ = std::thread([this, period] {
    while (!ending_.WaitForNotificationWithTimeout(period)) Poll().IgnoreError();  // it was logged
  });
}

std::shared_ptr<ServedModel> VersionWatch::current() const {
  const MutexLock lock(&mutex_);
  return current_;
}

VersionWatch::Counts VersionWatch::counts() const {
  const MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace trainyard::engine
