#include "trainer/data/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "trainer/base/file.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(const std::string& path, const Layout& layout, uint64_t file_bytes) {
  OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FileError(errno, "open", path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return FileError(errno, "read", path);
  if (!S_ISREG(status.st_mode)) return absl::InvalidArgumentError(fmt::format("cannot read {}: it is not a regular file", path));
  if (static_cast<uint64_t>(status.st_size) != file_bytes) {
    return absl::DataLossError(
        fmt::format("{} has {} bytes, expected {}: it was cut off or written over", path, status.st_size, file_bytes));
  }
  return std::unique_ptr<RecordFile>(new RecordFile(std::move(fd), path, layout));
}

absl::Status RecordFile::Read(int64_t record, std::byte* out) const {
  return ReadAt(fd_.get(), layout_.first_byte + static_cast<uint64_t>(record) * layout_.record_bytes, out, layout_.record_bytes, path_,
                record);
}

absl::Status ReadAt(int fd, uint64_t offset, std::byte* out, size_t count, const std::string& path, int64_t record) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(fd, out + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(errno, fmt::format("read record {} of", record), path);
    if (got == 0) return absl::DataLossError(fmt::format("{} became shorter while it was in use: record {} is gone", path, record));
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
