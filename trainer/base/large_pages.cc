#include "trainer/base/large_pages.h"

#include <sys/mman.h>

#include <memory>

namespace trainyard::engine {

void AdviseLargePages(void* start, size_t bytes) {
  if (std::align(kLargePage, kLargePage, start, bytes) == nullptr) return;
  // madvise(2): the advice is lost where the system has no large pages.
  madvise(start, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
}

}  // namespace trainyard::engine
