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

// The text that the holder wrote into its lock.
std::string HolderOf(int fd, LockHolder holder) {
  std::array<char, 32> text{};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  const std::string_view pid(text.data(), static_cast<size_t>(size < 0 ? 0 : size));
  const char* const who = holder == LockHolder::kLaunch ? "another launch" : "the chief of another training";
  return pid.empty() ? who : fmt::format("{} (process {})", who, pid);
}

}  // namespace

absl::StatusOr<OutputLock> OutputLock::Take(const std::string& dir, LockHolder holder) {
  TY_RETURN_IF_ERROR(MakeDirectories(dir));
  const std::string path = dir + (holder == LockHolder::kLaunch ? "/.lock" : "/.chief.lock");
  OwnedFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) return FileError(errno, "open", path);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(errno, "lock", path);
    return absl::FailedPreconditionError(fmt::format(
        "output folder '{}' is in use by {}; wait for its end, stop it, or give another --output", dir, HolderOf(file.get(), holder)));
  }
  const std::string pid = fmt::format("{}", getpid());
  if (ftruncate(file.get(), 0) != 0 || pwrite(file.get(), pid.data(), pid.size(), 0) < 0) return FileError(errno, "write", path);
  return OutputLock(std::move(file));
}

}  // namespace trainyard::engine
