#include "trainer/base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "trainer/base/file.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {
namespace {

constexpr int kMostLinks = 40;  // as Linux follows

absl::Status WriteInto(const std::string& path, std::string_view bytes) {
  const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0) return FileError(errno, "open", path);
  while (!bytes.empty()) {
    const ssize_t put = ::write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FileError(errno, "write", path);
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

std::string BehindLinks(std::filesystem::path path) {
  std::error_code error;
  for (int link = 0; link < kMostLinks && std::filesystem::is_symlink(path, error); ++link) {
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  }
  return path.string();
}

}  // namespace

absl::Status WriteOutputFile(const std::string& path, std::string_view bytes) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  const bool is_stream =
      std::filesystem::exists(found) && !std::filesystem::is_regular_file(found) && !std::filesystem::is_directory(found);
  return is_stream ? WriteInto(path, bytes) : ReplaceFile(BehindLinks(path), bytes);
}

}  // namespace trainyard::engine
