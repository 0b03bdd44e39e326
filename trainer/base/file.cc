#include "trainer/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "trainer/base/abandoned.h"
#include "trainer/base/file_error.h"
#include "trainer/base/log.h"
#include "trainer/base/owned_fd.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return FileError(errno, "open", path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return FileError(errno, "read", path);
  if (S_ISDIR(info.st_mode)) return FileError(EISDIR, "read", path);
  std::string bytes;
  size_t length = 0;
  // The size is where reading starts from, not what is trusted: the file may grow meanwhile, or be
  // a pipe.
  bytes.resize(static_cast<size_t>(std::min<int64_t>(info.st_size, max_bytes)) + 1);
  while (true) {
    ssize_t got = ::read(file.get(), bytes.data() + length, bytes.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, "read", path);
    if (got == 0) break;
    length += static_cast<size_t>(got);
    if (static_cast<int64_t>(length) > max_bytes) {
      return absl::FailedPreconditionError(
          fmt::format("{} is longer than {} bytes, the most that is read of such a file", path, max_bytes));
    }
    if (length == bytes.size()) bytes.resize(std::min<size_t>(2 * length, static_cast<size_t>(max_bytes) + 1));
  }
  bytes.resize(length);
  return bytes;
}

absl::Status WriteFileDurably(const std::string& path, std::string_view bytes, Disk& disk) {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> file, disk.Create(path));
  absl::Status written = file->Append(bytes);
  if (written.ok()) written = file->Sync();
  std::error_code error;
  if (!written.ok() && std::filesystem::is_regular_file(std::filesystem::symlink_status(path, error))) ::unlink(path.c_str());
  return written;
}

absl::Status ReplaceFile(const std::string& path, std::string_view bytes, Disk& disk) {
  const std::filesystem::path target(path);
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  const std::string prefix = target.filename().string() + ".tmp-";
  RemoveAbandoned(folder, prefix);
  const std::string temporary = fmt::format("{}/{}{}", folder, prefix, RandomName());
  absl::Status replaced = [&]() -> absl::Status {
    TY_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> file, disk.Create(temporary));  // a live writer until it has its name
    TY_RETURN_IF_ERROR(file->Append(bytes));
    TY_RETURN_IF_ERROR(file->Sync());
    return disk.Rename(temporary, path);
  }();
  if (!replaced.ok()) {
    ::unlink(temporary.c_str());
    return WithContext(replaced, fmt::format("cannot replace {}", path));
  }
  return disk.SyncFolder(folder);
}

absl::Status TellIfMayPass(const absl::Status& status, std::string_view what) {
  if (!MayPass(status)) return status;
  LogError("{} is not written: {}. The training does without; {}", what, std::string(status.message()), NextStepFor(status));
  return absl::OkStatus();
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FileError(error.value(), "create folder", path);
  if (!std::filesystem::is_directory(path, error)) return FileError(ENOTDIR, "create folder", path);
  return absl::OkStatus();
}

}  // namespace trainyard::engine
