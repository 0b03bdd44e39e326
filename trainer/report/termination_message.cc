#include "trainer/report/termination_message.h"

#include <filesystem>
#include <fstream>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

constexpr size_t kMaxMessageBytes = 2048;  // the kubelet keeps 4 KiB for all containers of a pod

// At a character's start, as the kubelet takes UTF-8 only.
std::string_view Cut(std::string_view text) {
  if (text.size() <= kMaxMessageBytes) return text;
  size_t end = kMaxMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace

absl::Status LeaveTerminationMessage(const std::string& path, std::string_view text) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return absl::OkStatus();
  std::ofstream file(path, std::ios::trunc);
  file << Cut(text) << std::flush;
  return file ? absl::OkStatus() : FileError(errno, "write", path);
}

}  // namespace trainyard::engine
