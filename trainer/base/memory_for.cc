#include "trainer/base/memory_for.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "trainer/base/bytes_text.h"
#include "trainer/base/memory_room.h"

namespace trainyard::engine {
absl::Status NoMemoryFor(std::string_view what, int64_t bytes) {
  const int64_t left = ReadMemoryRoom().limit;
  const std::string room =
      left == std::numeric_limits<int64_t>::max() ? "the machine has no more" : fmt::format("its limit leaves {}", BytesText(left));
  return absl::ResourceExhaustedError(
      fmt::format("cannot get {} for {}: {}. Raise the memory limit of this process (resources.limits.memory of the pod, ulimit -v), or "
                  "make it smaller",
                  bytes > 0 ? BytesText(bytes) + " of memory" : "the memory", what, room));
}

absl::Status CheckMemoryFor(std::string_view what, int64_t bytes) {
  return bytes > 0 && bytes > ReadMemoryRoom().limit ? NoMemoryFor(what, bytes) : absl::OkStatus();
}

}  // namespace trainyard::engine
