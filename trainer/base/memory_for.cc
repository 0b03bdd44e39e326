#include "trainer/base/memory_for.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "trainer/base/memory_room.h"

namespace trainyard::engine {
namespace {

std::string Shown(int64_t bytes) {
  constexpr double kMega = 1e6;
  constexpr double kGiga = 1e9;
  const auto value = static_cast<double>(bytes);
  return value >= kGiga ? fmt::format("{:.2f} GB", value / kGiga) : fmt::format("{:.1f} MB", value / kMega);
}

}  // namespace

absl::Status NoMemoryFor(std::string_view what, int64_t bytes) {
  const int64_t left = ReadMemoryRoom().limit;
  const std::string room =
      left == std::numeric_limits<int64_t>::max() ? "the machine has no more" : fmt::format("its limit leaves {}", Shown(left));
  return absl::ResourceExhaustedError(
      fmt::format("cannot get {} for {}: {}. Raise the memory limit of this process (resources.limits.memory of the pod, ulimit -v), or "
                  "make it smaller",
                  bytes > 0 ? Shown(bytes) + " of memory" : "the memory", what, room));
}

absl::Status CheckMemoryFor(std::string_view what, int64_t bytes) {
  return bytes > 0 && bytes > ReadMemoryRoom().limit ? NoMemoryFor(what, bytes) : absl::OkStatus();
}

}  // namespace trainyard::engine
