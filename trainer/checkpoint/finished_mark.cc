#include "trainer/checkpoint/finished_mark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMaxMarkBytes = 64;

std::string MarkPathIn(const std::string& dir) { return dir + "/finished"; }

}  // namespace

absl::Status MarkFinished(const std::string& dir, int64_t last_step) {
  return ReplaceFile(MarkPathIn(dir), fmt::format("{}\n", last_step));
}

absl::Status ClearFinished(const std::string& dir) {
  if (::unlink(MarkPathIn(dir).c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
  return FileError(errno, "remove", MarkPathIn(dir));
}

absl::StatusOr<std::optional<int64_t>> FinishedStep(const std::string& dir) {
  const absl::StatusOr<std::string> text = ReadFile(MarkPathIn(dir), kMaxMarkBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  TY_RETURN_IF_ERROR(text.status());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), step);
  if (error != std::errc() || step < 0 || std::string_view(end, text->data() + text->size()) != "\n") {
    return absl::DataLossError(fmt::format("{} holds no step; remove it", MarkPathIn(dir)));
  }
  return step;
}

}  // namespace trainyard::engine
