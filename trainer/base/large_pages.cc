#include "trainer/base/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "trainer/base/check.h"

namespace trainyard::engine {

void Unmap::operator()(std::byte* start) const { TY_CHECK(munmap(start, bytes) == 0); }

MappedBytes MapLargePages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes = (bytes + page - 1) / page * page;
  const size_t space = bytes + kLargePage;  // so much holds them wherever it begins
  void* const mapping = mmap(nullptr, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapping);
  const size_t before = (kLargePage - reinterpret_cast<uintptr_t>(mapping) % kLargePage) % kLargePage;
  std::byte* const start = begin + before;
  if (before > 0) TY_CHECK(munmap(begin, before) == 0);
  TY_CHECK(munmap(start + bytes, space - before - bytes) == 0);
  // madvise(2): the advice is lost where the system has no large pages.
  if (bytes >= kLargePage) madvise(start, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
  return MappedBytes(start, Unmap{bytes});
}

}  // namespace trainyard::engine
