// Lines of the program's log. Files that log include this and not spdlog, whose templates would be
// compiled anew in each of them.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace trainyard::control {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

bool IsLogged(LogLevel level);
void WriteLog(LogLevel level, std::string_view line);

template <typename... Args>
void Log(LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (IsLogged(level)) WriteLog(level, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
void LogDebug(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kDebug, text, std::forward<Args>(args)...);
}

template <typename... Args>
void LogInfo(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kInfo, text, std::forward<Args>(args)...);
}

template <typename... Args>
void LogWarning(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kWarning, text, std::forward<Args>(args)...);
}

template <typename... Args>
void LogError(fmt::format_string<Args...> text, Args&&... args) {
  Log(LogLevel::kError, text, std::forward<Args>(args)...);
}

}  // namespace trainyard::control
