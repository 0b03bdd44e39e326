#include "trainer/base/log.h"

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

void FlushLog() { spdlog::default_logger_raw()->flush(); }

}  // namespace trainyard::engine
