#include "trainer/base/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "trainer/base/process_memory.h"

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

}  // namespace

ProcessUsage ReadProcessUsage() {
  return {.cpu_seconds = CpuSeconds(), .resident_bytes = ResidentBytes(), .peak_resident_bytes = MaxRssBytes()};
}

}  // namespace trainyard::engine
