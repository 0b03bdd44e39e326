// Large pages for memory that kernels stream through: a page of 2 MiB takes one entry of the
// processor's page cache in place of 512, and prefetching does not stop at its 4 KiB.
#pragma once

#include <cstddef>
#include <memory>

namespace trainyard::engine {

// What x86-64 and arm64 with 4 KiB pages call a huge page.
inline constexpr size_t kLargePage = size_t{2} << 20;

struct Unmap {
  size_t bytes = 0;
  void operator()(std::byte* start) const;
};
// Goes back to the system with its owner.
using MappedBytes = std::unique_ptr<std::byte, Unmap>;

// New memory of the system's, zeroed, from the start of a large page on; null where it is short. A
// page is taken when it is first written. Asks for large pages in all whole ones of it. A system
// that has none, or does not give them on request, keeps small ones: nothing else changes. Memory
// of malloc may lie in small pages that were in use before.
MappedBytes MapLargePages(size_t bytes);

}  // namespace trainyard::engine
