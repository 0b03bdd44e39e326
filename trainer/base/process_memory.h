// What memory this process takes, as the kernel counts it.
#pragma once

#include <cstdint>

namespace trainyard::engine {

// The most memory this process ever had resident, in bytes; 0 where the kernel does not say.
int64_t MaxRssBytes();

}  // namespace trainyard::engine
