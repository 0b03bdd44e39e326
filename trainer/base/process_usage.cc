#include "trainer/base/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace trainyard::engine {
namespace {

double CpuSeconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The second number of statm: resident pages (proc(5)).
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  if (!(statm >> size >> resident)) return 0;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// Not getrusage: its ru_maxrss survives exec, so that a replica would show the memory of the
// launcher that started it.
int64_t PeakResidentBytes() {
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

}  // namespace

ProcessUsage ReadProcessUsage() {
  // The kernel counts resident pages by processor and brings its peak up to date late: it can be
  // below what statm said before.
  static std::atomic<int64_t> most = 0;
  const int64_t resident = ResidentBytes();
  int64_t before = most.load();
  while (before < resident && !most.compare_exchange_weak(before, resident)) {
  }
  return {.cpu_seconds = CpuSeconds(), .resident_bytes = resident, .peak_resident_bytes = std::max(PeakResidentBytes(), most.load())};
}

}  // namespace trainyard::engine
