#include "operator/base/heap.h"

#include <malloc.h>

namespace trainyard::control {

void KeepHeapSmall() {
  // By default glibc has an arena for each thread: memory that one arena has freed, another cannot
  // use. Its threshold for mmap grows to 32 MiB with the first large buffer.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 << 10);
  mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

}  // namespace trainyard::control
