#include "trainer/launch/replica_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

namespace trainyard::engine {
namespace {

constexpr size_t kLongestError = 2000;
constexpr std::string_view kTime = "0000-00-00T00:00:00.000 ";  // 0 stands for a digit
constexpr size_t kPrefix = kTime.size() + 2;                    // "E "

// The level of a line as main's log pattern writes it ('I', 'W', 'E' …); nothing when the line has
// none.
std::optional<char> LevelOf(std::string_view line) {
  if (line.size() < kPrefix || line[kPrefix - 1] != ' ') return std::nullopt;
  for (size_t i = 0; i < kTime.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(line[i])) != 0;
    if (kTime[i] == '0' ? !digit : line[i] != kTime[i]) return std::nullopt;
  }
  return line[kPrefix - 2];
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool IsError(std::optional<char> level) { return level == 'E' || level == 'C'; }

}  // namespace

int64_t LogSize(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

std::string LogSince(const std::string& path, int64_t begin, int64_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<int64_t>(file.tellg());
  if (size <= begin) return "";
  const int64_t start = std::max(begin, size - max_bytes);
  file.seekg(start);
  std::string text(static_cast<size_t>(size - start), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (start > begin) text.erase(0, text.find('\n') + 1);
  return text;
}

std::string LastLineIn(std::string_view log) {
  const std::vector<std::string_view> lines = LinesOf(log);
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](std::string_view line) { return LevelOf(line).has_value(); });
  return last == lines.rend() ? "" : std::string(last->substr(kPrefix, kLongestError));
}

std::string LastErrorIn(std::string_view log) {
  const std::vector<std::string_view> lines = LinesOf(log);
  const auto begin = std::find_if(lines.rbegin(), lines.rend(), [](std::string_view line) { return IsError(LevelOf(line)); });
  std::string text;
  if (begin != lines.rend()) {
    const auto first = begin.base() - 1;
    const auto end = std::find_if(first + 1, lines.end(), [](std::string_view line) { return LevelOf(line).has_value(); });
    text = fmt::format("{}", fmt::join(first, end, "\n")).substr(kPrefix);
  } else {
    const auto plain = std::find_if(lines.rbegin(), lines.rend(), [](std::string_view line) { return !LevelOf(line); });
    if (plain != lines.rend()) text = *plain;
  }
  if (text.size() > kLongestError) text.resize(kLongestError);
  return text;
}

}  // namespace trainyard::engine
