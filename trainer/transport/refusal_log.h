// The peers that an owner of streams has refused: all are counted, few lines of the log tell of
// them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "trainer/base/bounded_lines.h"
#include "trainer/base/log.h"

namespace trainyard::engine {

// Thread-safe. Time is what its caller says it is.
class RefusalLog {
 public:
  void Add(std::string_view owner, std::string_view peer, const absl::Status& why, absl::Time now) {
    std::optional<std::string> line;
    {
      absl::MutexLock lock(&mutex_);
      line = lines_.Add(fmt::format("{} refuses {}", owner, peer), std::string(why.message()), now);
    }
    if (line) LogWarning("{}", *line);
  }
  int64_t count() const {
    absl::MutexLock lock(&mutex_);
    return lines_.count();
  }

 private:
  mutable absl::Mutex mutex_;
  BoundedLines lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
