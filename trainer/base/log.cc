#include "trainer/base/log.h"

#include <algorithm>
#include <deque>
#include <string>

#include "absl/base/const_init.h"
#include "absl/synchronization/mutex.h"
#include "spdlog/spdlog.h"

namespace trainyard::engine {
namespace {

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

bool IsLogged(LogLevel level) { return spdlog::should_log(SpdlogLevel(level)); }

void WriteLog(LogLevel level, std::string_view line) { spdlog::default_logger_raw()->log(SpdlogLevel(level), line); }

bool IsNewLine(std::string_view line) {
  constexpr size_t kRemembered = 256;
  static absl::Mutex mutex(absl::kConstInit);
  static std::deque<std::string> lines;
  absl::MutexLock lock(&mutex);
  if (std::ranges::find(lines, line) != lines.end()) return false;
  lines.emplace_back(line);
  if (lines.size() > kRemembered) lines.pop_front();
  return true;
}

void FlushLog() { spdlog::default_logger_raw()->flush(); }

}  // namespace trainyard::engine
