#include "operator/base/heap.h"

#include <malloc.h>

namespace trainyard::control {

void KeepHeapSmall() {
  // glibc's defaults are an arena for each thread (what one frees, another cannot use) and a threshold that grows to 32 MiB with the first
  // large buffer.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

}  // namespace trainyard::control
