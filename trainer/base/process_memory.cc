#include "trainer/base/process_memory.h"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace trainyard::engine {

// Not getrusage: its ru_maxrss survives exec, so that a replica would show the memory of the launcher that started it.
int64_t MaxRssBytes() {
  constexpr std::string_view kField = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kField)) continue;
    const size_t digits = line.find_first_of("0123456789");
    if (digits == std::string::npos) return 0;
    int64_t kibibytes = 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kibibytes);
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace trainyard::engine
