#include "trainer/base/disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "trainer/base/file_error.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {
namespace {

class RealSink final : public FileSink {
 public:
  RealSink(OwnedFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  absl::Status Append(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return FileError(errno, "write", path_);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override { return ::fsync(fd_.get()) == 0 ? absl::OkStatus() : FileError(errno, "write", path_); }

 private:
  const OwnedFd fd_;
  const std::string path_;
};

class RealDiskType final : public Disk {
 public:
  absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& path) override {
    OwnedFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd.get() < 0) return FileError(errno, "create", path);
    ::flock(fd.get(), LOCK_SH | LOCK_NB);  // where locks cannot be had, age alone tells a dead writer
    return std::make_unique<RealSink>(std::move(fd), path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return FileError(errno == ENOTEMPTY ? EEXIST : errno, "rename to", to);
  }
  absl::Status Exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return absl::OkStatus();
    const int error = errno;
    absl::Status status = FileError(error, "exchange", b);
    const bool cannot = error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EXDEV;
    return cannot ? absl::UnimplementedError(status.message()) : status;
  }
  absl::Status SyncFolder(const std::string& path) override {
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) return FileError(errno, "open folder", path);
    return ::fsync(fd.get()) == 0 ? absl::OkStatus() : FileError(errno, "sync folder", path);
  }
};

}  // namespace

Disk& RealDisk() {
  static RealDiskType disk;
  return disk;
}

}  // namespace trainyard::engine
