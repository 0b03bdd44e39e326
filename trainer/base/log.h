// Lines of the program's log. Files that log include this and not spdlog, whose templates would be
// compiled anew in each of them.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace trainyard::engine {

enum class LogLevel { kInfo, kWarning, kError };

bool IsLogged(LogLevel level);
void WriteLog(LogLevel level, std::string_view line);
void FlushLog();
// Whether the line is none of the last 256 that this was asked about. Thread-safe.
bool IsNewLine(std::string_view line);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (IsLogged(level)) WriteLog(level, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kInfo, text, std::forward<Args>(args)...);
}

// Once, where the same is found again and again: by each opening of the same data.
template <typename... Args>
void LogInfoOnce(fmt::format_string<Args...> text, Args&&... args) {
  const std::string line = fmt::format(text, std::forward<Args>(args)...);
  if (IsNewLine(line)) LogInfo("{}", line);
}

template <typename... Args>
void LogWarning(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kWarning, text, std::forward<Args>(args)...);
}

template <typename... Args>
void LogError(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kError, text, std::forward<Args>(args)...);
}

}  // namespace trainyard::engine
