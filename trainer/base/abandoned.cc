#include "trainer/base/abandoned.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <random>
#include <system_error>

#include "trainer/base/clock.h"
#include "trainer/base/log.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kXfsMagic = 0x58465342;  // absent from linux/magic.h

// One kernel sees all users of these: its locks say all.
bool IsLocal(int fd) {
  struct statfs info{};
  if (::fstatfs(fd, &info) != 0) return false;
  constexpr std::array<int64_t, 6> kLocal = {EXT4_SUPER_MAGIC,      kXfsMagic,       BTRFS_SUPER_MAGIC, TMPFS_MAGIC,
                                             OVERLAYFS_SUPER_MAGIC, F2FS_SUPER_MAGIC};
  return std::ranges::find(kLocal, static_cast<int64_t>(info.f_type)) != kLocal.end();
}

absl::Time ChangedAt(const std::string& path) {
  struct stat info{};
  // A rename shows in the time of change only.
  return ::lstat(path.c_str(), &info) == 0 ? absl::TimeFromTimespec(info.st_ctim) : absl::InfiniteFuture();
}

absl::Time NewestChange(const std::string& path) {
  absl::Time newest = ChangedAt(path);
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    newest = std::max(newest, ChangedAt(it->path().string()));
  }
  return newest;
}

}  // namespace

std::string RandomName() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", static_cast<uint32_t>(random()), static_cast<uint32_t>(random()));
}

bool WriterIsGone(bool held, bool local, absl::Duration quiet) { return !held && (local || quiet > kAbandonedAfter); }

bool IsAbandoned(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const bool local = IsLocal(fd);
  ::close(fd);
  return WriterIsGone(held, local, RealClock().Wall() - NewestChange(path));
}

void RemoveIfAbandoned(const std::string& path) {
  if (!IsAbandoned(path)) return;
  std::error_code error;
  fs::remove_all(path, error);
  if (error) LogWarning("cannot remove {}, left by an interrupted save: {}", path, error.message());
}

void RemoveAbandoned(const std::string& folder, std::string_view prefix) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) RemoveIfAbandoned(it->path().string());
  }
}

}  // namespace trainyard::engine
