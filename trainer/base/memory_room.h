// How much memory this process can still get, for callers that can take less.
#pragma once

#include <cstdint>
#include <filesystem>

namespace trainyard::engine {

struct MemoryRoom {
  // What the process's address space (`ulimit -v`) and the cgroup's limit (v2 `memory.max`, its own and its ancestors') leave. More than
  // this cannot be had: to try ends in std::bad_alloc or in a kill.
  int64_t limit = 0;
  // The same, or what the whole machine has to give without swapping, if that is less.
  int64_t available = 0;
};

// `root` is the file system's root, another one in tests. Files that are missing or do not parse set no limit.
MemoryRoom ReadMemoryRoom(const std::filesystem::path& root = "/");

}  // namespace trainyard::engine
