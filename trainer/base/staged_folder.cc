#include "trainer/base/staged_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "trainer/base/abandoned.h"
#include "trainer/base/file.h"
#include "trainer/base/file_error.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr int kAttempts = 10;
constexpr size_t kMarkSize = std::string_view(".new-0123456789abcdef").size();

std::string ParentOf(const std::string& path) {
  std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string Beside(const std::string& path, std::string_view what) {
  return fmt::format("{}/.{}.{}-", ParentOf(path), fs::path(path).filename().string(), what);
}

bool Exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

// "best" and "old" of ".best.old-0123456789abcdef"; nothing of any other name.
struct HiddenName {
  std::string name;
  std::string what;
};
std::optional<HiddenName> ParseHidden(std::string_view hidden) {
  if (hidden.size() < 2 + kMarkSize || hidden.front() != '.') return std::nullopt;
  const std::string_view mark = hidden.substr(hidden.size() - kMarkSize);
  const std::string_view what = mark.substr(1, 3);
  const bool digits = std::ranges::all_of(mark.substr(5), [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
  if (mark.front() != '.' || mark[4] != '-' || !digits || (what != "new" && what != "old")) return std::nullopt;
  return HiddenName{std::string(hidden.substr(1, hidden.size() - kMarkSize - 1)), std::string(what)};
}

// Folders that were set aside get their names back where those are free. Leftovers of dead writers
// go.
void Tidy(const std::string& parent, Disk& disk) {
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    const std::optional<HiddenName> hidden = ParseHidden(it->path().filename().string());
    if (!hidden) continue;
    const std::string path = it->path().string();
    const std::string standing = fmt::format("{}/{}", parent, hidden->name);
    // AlreadyExists: another writer was first, and this one is of no use any more.
    if (hidden->what == "old" && !Exists(standing) && disk.Rename(path, standing).ok()) continue;
    RemoveIfAbandoned(path);
  }
}

// Makes the folder and holds it as its live writer; no descriptor where a cleaner came between.
absl::StatusOr<OwnedFd> MakeHeld(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) return FileError(errno, "create folder", path);
  OwnedFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) {
    const int error = errno;
    if (error == ENOENT) return folder;
    ::rmdir(path.c_str());
    return FileError(error, "open folder", path);
  }
  struct stat info{};
  const bool taken = ::flock(folder.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && ::fstat(folder.get(), &info) == 0 && info.st_nlink > 0) return folder;
  return OwnedFd(-1);
}

}  // namespace

std::string StandingFolder(const std::string& path) {
  if (Exists(path)) return path;
  std::error_code error;
  for (fs::directory_iterator it(ParentOf(path), error), end; !error && it != end; it.increment(error)) {
    const std::optional<HiddenName> hidden = ParseHidden(it->path().filename().string());
    if (!hidden || hidden->what != "old" || hidden->name != fs::path(path).filename()) continue;
    return Exists(path) ? path : it->path().string();  // a writer may have finished between the two looks
  }
  return path;
}

std::string_view StandingName(std::string_view name) {
  const std::optional<HiddenName> hidden = ParseHidden(name);
  return hidden && hidden->what == "old" ? name.substr(1, hidden->name.size()) : name;
}

absl::StatusOr<StagedFolder> StagedFolder::Create(const std::string& path, Disk& disk) {
  TY_RETURN_IF_ERROR(MakeDirectories(ParentOf(path)));
  Tidy(ParentOf(path), disk);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string staged = Beside(path, "new") + RandomName();
    TY_ASSIGN_OR_RETURN(OwnedFd lock, MakeHeld(staged));
    if (lock.get() >= 0) return StagedFolder(path, std::move(staged), std::move(lock), disk);
  }
  return absl::AbortedError(fmt::format("cannot hold a new folder beside {}: other writers remove it each time", path));
}

StagedFolder::StagedFolder(std::string path, std::string staged, OwnedFd lock, Disk& disk)
    : final_(std::move(path)), staged_(std::move(staged)), lock_(std::move(lock)), disk_(&disk) {}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : final_(std::move(other.final_)),
      staged_(std::exchange(other.staged_, "")),
      aside_(std::exchange(other.aside_, "")),
      lock_(std::move(other.lock_)),
      disk_(other.disk_) {}

StagedFolder::~StagedFolder() {
  std::error_code ignored;  // what stays is hidden, and the next writer removes it
  for (const std::string& path : {staged_, aside_}) {
    if (!path.empty()) fs::remove_all(path, ignored);
  }
}

absl::Status StagedFolder::Publish() {
  TY_RETURN_IF_ERROR(disk_->SyncFolder(staged_));
  TY_RETURN_IF_ERROR(disk_->Rename(staged_, final_));
  staged_.clear();
  return disk_->SyncFolder(ParentOf(final_));
}

absl::Status StagedFolder::Replace() {
  absl::Status published = Publish();
  if (!absl::IsAlreadyExists(published)) return published;
  const absl::Status exchanged = disk_->Exchange(staged_, final_);
  if (absl::IsUnimplemented(exchanged)) {
    TY_RETURN_IF_ERROR(SetAsideAndRename());
  } else {
    TY_RETURN_IF_ERROR(exchanged);  // the old one now stands at staged_, and goes with this object
  }
  return disk_->SyncFolder(ParentOf(final_));
}

absl::Status StagedFolder::SetAsideAndRename() {
  absl::Status renamed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string aside = Beside(final_, "old") + RandomName();
    const absl::Status moved = disk_->Rename(final_, aside);
    if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
    renamed = disk_->Rename(staged_, final_);
    if (renamed.ok()) {
      staged_.clear();
      if (moved.ok()) aside_ = aside;
      return absl::OkStatus();
    }
    if (moved.ok()) disk_->Rename(aside, final_).IgnoreError();  // AlreadyExists: another writer was first
    if (!absl::IsAlreadyExists(renamed)) break;
  }
  return renamed;
}

}  // namespace trainyard::engine
