// Numbers of bytes as they are told to people.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::engine {

// In the largest of these units that leaves 1 or more, of powers of 1000: "999 bytes", "1.5 kB",
// "12.0 MB", "3.25 GB", "9.60 TB".
std::string BytesText(int64_t bytes);

}  // namespace trainyard::engine
