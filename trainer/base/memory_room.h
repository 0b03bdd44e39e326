// How much memory this process can still get, for callers that can take less.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trainyard::engine {

struct MemoryRoom {
  // The rest of the process's address space (`ulimit -v`) and of the cgroup's limit (v2
  // `memory.max`, its own and its ancestors'), whichever is less. A process that asks for more ends
  // in std::bad_alloc or in a kill.
  int64_t limit = 0;
  // The same, or what the whole machine has to give without swapping, if that is less.
  int64_t available = 0;
};

// `root` is the file system's root, another one in tests. Files that are missing or do not parse
// set no limit.
MemoryRoom ReadMemoryRoom(const std::filesystem::path& root = "/");

}  // namespace trainyard::engine
