// Events that others can cause in any number: all are counted, few lines tell of them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace trainyard::engine {

// Not thread-safe. Time is what its caller says it is.
//
// The first event with a text is told, for at most kMostTexts texts. Of all other events one every
// kPeriod is told, with the number left out. So a log grows by a bounded number of lines of bounded
// length, whatever peers do.
class BoundedLines {
 public:
  static constexpr size_t kMostTexts = 32;
  static constexpr size_t kLongestText = 600;
  static constexpr absl::Duration kPeriod = absl::Seconds(10);

  // The line to log now: "SUBJECT: TEXT". The subject does not count for what is told already.
  // `text` may hold any bytes: those that are not plain text are escaped.
  std::optional<std::string> Add(std::string_view subject, std::string_view text, absl::Time now);
  int64_t count() const { return count_; }

 private:
  std::set<std::string> told_;
  absl::Time next_line_ = absl::InfinitePast();
  int64_t count_ = 0;
  int64_t untold_ = 0;
};

}  // namespace trainyard::engine
