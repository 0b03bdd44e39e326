// The last caches before memory, each of which some cores of a chip share.
#pragma once

#include <cstddef>
#include <filesystem>

namespace trainyard::engine {

// Bytes of all last caches of the machine together, as Linux tells them (sysfs,
// "devices/system/cpu/cpu*/cache/index*"). 0: it tells none. sysconf(3) is not asked: it gives the
// size of one of them or of all, by the processor. `root` is the file system's root, another one in
// tests.
size_t LastCacheBytes(const std::filesystem::path& root = "/");

}  // namespace trainyard::engine
