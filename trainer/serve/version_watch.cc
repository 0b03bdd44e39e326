#include "trainer/serve/version_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/find_checkpoint.h"
#include "trainer/checkpoint/vocabulary_file.h"

namespace trainyard::engine {
namespace {

// The sizes and times of all files that a checkpoint is loaded from. Another text: one of them has
// changed.
std::string FilesText(const std::string& checkpoint) {
  std::vector<std::string> files;
  const auto add = [&files](const std::filesystem::path& path) {
    std::error_code ignored;
    const uintmax_t bytes = std::filesystem::file_size(path, ignored);
    const auto changed = std::filesystem::last_write_time(path, ignored).time_since_epoch().count();
    files.push_back(fmt::format("{} {} {}", path.filename().string(), bytes, changed));
  };
  std::error_code ignored;
  for (std::filesystem::directory_iterator at(checkpoint, ignored), end; at != end; at.increment(ignored)) add(at->path());
  std::ranges::sort(files);
  const std::string beside = std::filesystem::path(checkpoint).parent_path().string();
  if (const absl::StatusOr<std::string> vocabulary = FindVocabulary(std::span(&beside, 1)); vocabulary.ok()) add(*vocabulary);
  return fmt::format("{}", fmt::join(files, "\n"));
}

}  // namespace

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
  std::erase_if(refused_,
                [&](const Refusal& refusal) { return std::ranges::find(marks, refusal.path, &CheckpointMark::path) == marks.end(); });
  absl::Status status = absl::NotFoundError(fmt::format("no {}checkpoint in {} yet", best_ ? "best " : "", path_));
  for (const CheckpointMark& mark : marks) {
    if (mark == served_) return absl::OkStatus();
    const auto refusal = std::ranges::find(refused_, mark.path, &Refusal::path);
    std::string files = FilesText(mark.path);
    if (refusal != refused_.end() && refusal->files == files) {
      Tell(*refusal);
      status = refusal->why;
      continue;
    }
    status = Load(mark);
    if (status.ok()) {
      std::erase_if(refused_, [&](const Refusal& before) { return before.path == mark.path; });
      served_ = mark;
      return status;
    }
    std::error_code ignored;
    if (std::filesystem::exists(mark.path, ignored)) Refuse(mark.path, std::move(files), status);  // else it was removed meanwhile
  }
  return status;
}

// A second reason waits for files that no longer change: a copy on its way has another one at every
// look.
void VersionWatch::Refuse(const std::string& path, std::string files, const absl::Status& why) {
  const auto before = std::ranges::find(refused_, path, &Refusal::path);
  if (before != refused_.end()) {
    before->told = before->told && before->why == why;
    before->files = std::move(files);
    before->why = why;
    return;
  }
  Tell(refused_.emplace_back(Refusal{.path = path, .files = std::move(files), .why = why}));
  const MutexLock lock(&mutex_);
  ++counts_.refused;
}

void VersionWatch::Tell(Refusal& refusal) {
  if (std::exchange(refusal.told, true)) return;
  const std::shared_ptr<ServedModel> model = current();
  const std::string stays = model ? fmt::format(", version {} stays", model->version()) : "";
  LogWarning("{} is not served{}: {}", refusal.path, stays, std::string(refusal.why.message()));
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
