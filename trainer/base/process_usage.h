// This process's use of its machine so far.
#pragma once

#include <cstdint>

namespace trainyard::engine {

struct ProcessUsage {
  double cpu_seconds = 0;           // user and system, all threads
  int64_t resident_bytes = 0;       // now
  int64_t peak_resident_bytes = 0;  // the most it ever had
};

// As the kernel counts it; 0 where it does not say.
ProcessUsage ReadProcessUsage();

}  // namespace trainyard::engine
