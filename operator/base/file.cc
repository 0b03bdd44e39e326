#include "operator/base/file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace trainyard::control {

absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type == std::filesystem::file_type::not_found) return absl::NotFoundError(fmt::format("{}: no such file", path));
  if (type == std::filesystem::file_type::directory) return absl::InvalidArgumentError(fmt::format("{}: is a folder, not a file", path));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::PermissionDeniedError(fmt::format("{}: cannot be opened: {}", path, std::strerror(errno)));
  std::string text(max_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) return absl::UnavailableError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  if (text.size() > max_bytes) return absl::InvalidArgumentError(fmt::format("{}: is longer than {} bytes", path, max_bytes));
  const size_t end = text.find_last_not_of(" \t\r\n");
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

}  // namespace trainyard::control
