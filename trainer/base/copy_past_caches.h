// A copy whose target is not kept in the caches.
#pragma once

#include <cstddef>
#include <span>

namespace trainyard::engine {

// Copies `from` to the beginning of `to`, which is at least as long and lies elsewhere. Where the
// processor can (x86-64), the target is written to memory without being read before, and leaves the
// caches alone. That is faster for what is not read again before other values have taken its place
// there, and slower for all else.
void CopyPastCaches(std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace trainyard::engine
