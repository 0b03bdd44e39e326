#include "trainer/base/bounded_lines.h"

#include <fmt/format.h>

#include <utility>

namespace trainyard::engine {

std::optional<std::string> BoundedLines::Add(std::string_view subject, std::string_view text, absl::Time now) {
  ++count_;
  std::string plain;
  for (const char letter : text.substr(0, kLongestText)) {
    plain += letter >= ' ' && letter <= '~' ? std::string(1, letter) : fmt::format("\\x{:02x}", letter & 0xff);
  }
  if (text.size() > kLongestText) plain += " …";
  const bool fresh = told_.size() < kMostTexts && told_.insert(plain).second;
  if (!fresh && now < next_line_) {
    ++untold_;
    return std::nullopt;
  }
  if (!fresh) next_line_ = now + kPeriod;
  const int64_t left_out = std::exchange(untold_, 0);
  return fmt::format("{}: {}{}", subject, plain,
                     left_out == 0 ? "" : fmt::format(" ({} such lines before this one are left out, {} in all)", left_out, count_));
}

}  // namespace trainyard::engine
