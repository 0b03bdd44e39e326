#include "trainer/launch/output_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// What the holder wrote into its lock.
std::string HolderOf(int fd) {
  std::array<char, 32> text{};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  const std::string_view pid(text.data(), static_cast<size_t>(size < 0 ? 0 : size));
  return pid.empty() ? "another launch" : fmt::format("another launch (process {})", pid);
}

}  // namespace

absl::StatusOr<OutputLock> OutputLock::Take(const std::string& dir) {
  TY_RETURN_IF_ERROR(MakeDirectories(dir));
  const std::string path = dir + "/.lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(errno, "open", path);
  OutputLock lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(errno, "lock", path);
    return absl::FailedPreconditionError(
        fmt::format("output folder '{}' is in use by {}; wait for its end, stop it, or give another --output", dir, HolderOf(fd)));
  }
  const std::string pid = fmt::format("{}", getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) return FileError(errno, "write", path);
  return lock;
}

OutputLock::OutputLock(OutputLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

OutputLock::~OutputLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace trainyard::engine
