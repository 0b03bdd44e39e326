#include "trainer/base/output_file.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "trainer/base/disk.h"
#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr int kMostLinks = 40;  // as Linux follows

absl::Status WriteInto(const std::string& path, std::string_view bytes) {
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> stream, RealDisk().Create(path));
  return stream->Append(bytes);  // a pipe has no fsync
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
