// Large pages for memory that kernels stream through: a page of 2 MiB takes one entry of the
// processor's page cache in place of 512, and prefetching does not stop at its 4 KiB.
#pragma once

#include <cstddef>

namespace trainyard::engine {

// What x86-64 and arm64 with 4 KiB pages call a huge page.
inline constexpr size_t kLargePage = size_t{2} << 20;

// Asks the system for large pages in all whole ones of [start, start + bytes). A system that has
// none, or does not give them on request, keeps small ones: nothing else changes.
void AdviseLargePages(void* start, size_t bytes);

}  // namespace trainyard::engine
