#include "trainer/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

// Closes on every way out; Close() where the error of closing matters.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  // 0 or errno.
  int Close() {
    int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

// 0 or errno.
int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

absl::Status FileError(int error, std::string_view action, std::string_view path) {
  std::string message = fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return FileError(errno, "open", path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return FileError(errno, "read", path);
  if (S_ISDIR(info.st_mode)) return FileError(EISDIR, "read", path);
  std::string bytes;
  size_t length = 0;
  // The size is where reading starts from, not what is trusted: the file may grow meanwhile, or be a pipe.
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

absl::Status WriteFileDurably(const std::string& path, std::string_view bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return FileError(errno, "create", path);
  if (int error = WriteAll(file.get(), bytes)) return FileError(error, "write", path);
  if (::fsync(file.get()) != 0) return FileError(errno, "write", path);
  if (int error = file.Close()) return FileError(error, "write", path);
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, std::string_view bytes) {
  std::string temporary = fmt::format("{}.tmp-{}", path, ::getpid());
  if (absl::Status written = WriteFileDurably(temporary, bytes); !written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = FileError(errno, "replace", path);
    ::unlink(temporary.c_str());
    return status;
  }
  std::string folder = std::filesystem::path(path).parent_path().string();
  return SyncDirectory(folder.empty() ? "." : folder);
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return FileError(error.value(), "create folder", path);
  if (!std::filesystem::is_directory(path, error)) return FileError(ENOTDIR, "create folder", path);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return FileError(errno, "open folder", path);
  if (::fsync(folder.get()) != 0) return FileError(errno, "sync folder", path);
  return absl::OkStatus();
}

}  // namespace trainyard::engine
