// The last cache before memory, which the cores of a chip share.
#pragma once

#include <cstddef>
#include <filesystem>

namespace trainyard::engine {

// Bytes of the first processor's largest cache, as Linux tells them (sysfs,
// "devices/system/cpu/cpu0/cache/index*/size"). 0: it tells none. sysconf(3) is not asked: for some
// processors of several chips it gives the sum over all. `root` is the file system's root, another
// one in tests.
size_t LastCacheBytes(const std::filesystem::path& root = "/");

}  // namespace trainyard::engine
