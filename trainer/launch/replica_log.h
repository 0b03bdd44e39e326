// The last line and the last error of a replica, read from its log.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::engine {

// Bytes of the file; 0 where there is none. A log is appended to: what a process wrote begins here.
int64_t LogSize(const std::string& path);

// Whole lines from byte `begin` on, at most the last `max_bytes`; "" when the file cannot be read.
std::string LogSince(const std::string& path, int64_t begin, int64_t max_bytes);

// The last error in a log, without time and level: the last line of level error or critical and the
// lines that belong to it. Without one, the last line that carries no level (an abort's, a
// shell's). "" where there is neither. At most 2,000 bytes.
std::string LastErrorIn(std::string_view log);

// The last line of a log that carries a level, without time and level; "": there is none.
std::string LastLineIn(std::string_view log);

}  // namespace trainyard::engine
