#include "trainer/job/output_owner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMaxMarkBytes = 4096;

struct Mark {
  std::string name;
  std::string uid;
  bool ended = false;
};

std::string TextOf(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Nothing where there is no file.
absl::StatusOr<std::optional<Mark>> ReadMark(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxMarkBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  TY_RETURN_IF_ERROR(text.status());
  const json object = ParseJson(*text);
  if (!object.is_object() || TextOf(object, "uid").empty()) {
    return absl::FailedPreconditionError(fmt::format(
        "{} does not name a job; expected {{\"name\": …, \"uid\": …}}; remove the file if no job writes into its folder", path));
  }
  const auto ended = object.find("ended");
  return Mark{TextOf(object, "name"), TextOf(object, "uid"), ended != object.end() && ended->is_boolean() && ended->get<bool>()};
}

absl::StatusOr<absl::Time> ModifiedAt(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return FileError(errno, "look at", path);
  return absl::TimeFromTimespec(info.st_mtim);
}

// A new file beside job.json. Replicas write at once, from pods whose process ids are all 1: each
// needs a file of its own.
absl::StatusOr<std::string> WriteBeside(const std::string& path, const std::string& text) {
  std::string beside = path + ".XXXXXX";
  const int fd = ::mkstemp(beside.data());
  if (fd < 0) return FileError(errno, "create", beside);
  ::fchmod(fd, 0644);  // jobs of other users read it
  ::close(fd);
  absl::Status written = WriteFileDurably(beside, text);
  if (written.ok()) return beside;
  ::unlink(beside.c_str());
  return written;
}

// The time on the clock of the folder's file system, from a file that is made for it.
absl::StatusOr<absl::Time> TimeAt(const std::string& path) {
  TY_ASSIGN_OR_RETURN(const std::string probe, WriteBeside(path, "x"));
  const absl::StatusOr<absl::Time> now = ModifiedAt(probe);
  ::unlink(probe.c_str());
  return now;
}

absl::Status Refuse(const OutputOwnerOptions& options, const Mark& other) {
  return absl::FailedPreconditionError(fmt::format(
      "the output folder {} is that of job {} (uid {}), which still runs; job {} (uid {}) needs a folder of its own. Give it another "
      "name, or another spec.storage.claimName",
      options.output, other.name, other.uid, options.job_name, options.job_uid));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputOwner>> OutputOwner::Claim(OutputOwnerOptions options, const Wait& wait,
                                                                std::function<void(const absl::Status&)> lost) {
  TY_RETURN_IF_ERROR(MakeDirectories(options.output));
  std::unique_ptr<OutputOwner> owner(new OutputOwner(std::move(options), std::move(lost)));
  TY_RETURN_IF_ERROR(owner->TakeOver(wait));
  owner->beats_ = std::thread([raw = owner.get()] { raw->Run(); });
  return owner;
}

OutputOwner::OutputOwner(OutputOwnerOptions options, std::function<void(const absl::Status&)> lost)
    : options_(std::move(options)), path_(options_.output + "/job.json"), lost_(std::move(lost)) {}

OutputOwner::~OutputOwner() {
  ending_.Notify();
  if (beats_.joinable()) beats_.join();
}

absl::Status OutputOwner::TakeOver(const Wait& wait) {
  std::optional<absl::Time> seen_beat;
  while (true) {
    TY_ASSIGN_OR_RETURN(const std::optional<Mark> mark, ReadMark(path_));
    if (!mark) {
      TY_RETURN_IF_ERROR(Write(false));
      return Beat();  // two jobs may have found none: the later one has the folder
    }
    // Replicas that outlive the chief do not take back its word.
    if (mark->uid == options_.job_uid) return mark->ended && options_.chief ? Write(false) : Beat();
    TY_ASSIGN_OR_RETURN(const absl::Time beat, ModifiedAt(path_));
    TY_ASSIGN_OR_RETURN(const absl::Time now, TimeAt(path_));
    const absl::Duration age = now - beat;
    if (mark->ended || age >= options_.stale) {
      LogInfo("the output folder {} is that of job {} (uid {}), which has ended: this job goes on from its files", options_.output,
              mark->name, mark->uid);
      TY_RETURN_IF_ERROR(Write(false));
      return Beat();
    }
    if (seen_beat && beat > *seen_beat) return Refuse(options_, *mark);
    if (!seen_beat) {
      LogWarning("the output folder {} is that of job {} (uid {}), last used {} ago: waits to see whether it still runs", options_.output,
                 mark->name, mark->uid, absl::FormatDuration(absl::Trunc(age, absl::Seconds(1))));
    }
    seen_beat = beat;
    const absl::Duration next_beat = options_.beat + absl::Seconds(1);
    if (!wait(std::clamp(options_.stale - age, absl::Milliseconds(100), next_beat))) return absl::CancelledError("stopped");
  }
}

absl::Status OutputOwner::Beat() {
  TY_ASSIGN_OR_RETURN(const std::optional<Mark> mark, ReadMark(path_));
  if (!mark) return Write(false);  // somebody emptied the folder
  if (mark->uid != options_.job_uid) return Refuse(options_, *mark);
  TY_ASSIGN_OR_RETURN(const absl::Time beat, ModifiedAt(path_));
  if (std::exchange(seen_, beat) != beat) return absl::OkStatus();  // another replica has beaten
  if (::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0) != 0) return FileError(errno, "touch", path_);
  TY_ASSIGN_OR_RETURN(seen_, ModifiedAt(path_));
  return absl::OkStatus();
}

absl::Status OutputOwner::End() { return Write(true); }

absl::Status OutputOwner::Write(bool ended) {
  json mark = {{"name", options_.job_name}, {"uid", options_.job_uid}};
  if (ended) mark["ended"] = true;
  TY_ASSIGN_OR_RETURN(const std::string written, WriteBeside(path_, mark.dump() + "\n"));
  if (::rename(written.c_str(), path_.c_str()) != 0) return FileError(errno, "replace", path_);
  return absl::OkStatus();
}

void OutputOwner::Run() {
  while (!ending_.WaitForNotificationWithTimeout(options_.beat)) {
    const absl::Status status = Beat();
    if (status.ok()) continue;
    if (absl::IsFailedPrecondition(status)) return lost_(status);
    LogWarning("{}; tried again in {}", std::string(status.message()), absl::FormatDuration(options_.beat));
  }
}

}  // namespace trainyard::engine
