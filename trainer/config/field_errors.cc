#include "trainer/config/field_errors.h"

#include <fmt/format.h>

#include <iterator>

namespace trainyard::engine {
namespace {

constexpr size_t kMaxErrorsShown = 50;

// The line of `path` or of the nearest object around it; 0 when none is known.
int LineOf(std::string_view path, const PathLines& lines) {
  while (true) {
    if (const auto found = lines.find(path); found != lines.end()) return found->second;
    const size_t end = path.find_last_of(".[");
    if (end == std::string_view::npos) return 0;
    path = path.substr(0, end);
  }
}

}  // namespace

void FieldErrors::Add(std::string_view path, std::string_view message) {
  errors_.push_back({.path = std::string(path), .message = std::string(message)});
}

absl::Status FieldErrors::ToStatus(std::string_view source, const PathLines& lines) const {
  if (errors_.empty()) return absl::OkStatus();
  std::multimap<int, const Error*> sorted;  // by line; errors of one line stay in the order in which they were added
  for (const Error& error : errors_) sorted.emplace(LineOf(error.path, lines), &error);
  std::string text = fmt::format("{}: {} error{}", source, sorted.size(), sorted.size() == 1 ? "" : "s");
  size_t shown = 0;
  for (const auto& [line, error] : sorted) {
    if (++shown > kMaxErrorsShown) break;
    const std::string position = line > 0 ? fmt::format("{}:{}", source, line) : std::string(source);
    fmt::format_to(std::back_inserter(text), "\n{}: {}{}{}", position, error->path, error->path.empty() ? "" : ": ", error->message);
  }
  if (sorted.size() > kMaxErrorsShown) fmt::format_to(std::back_inserter(text), "\n… and {} more", sorted.size() - kMaxErrorsShown);
  return absl::InvalidArgumentError(text);
}

}  // namespace trainyard::engine
