// How many processors this process may use. Thread pools are sized by it.
#pragma once

#include <filesystem>

namespace trainyard::engine {

// The processors in this thread's affinity mask, at most the whole processors that the cgroup's
// quota allows, at least 1. The quota is cgroup v2 `cpu.max` or v1 `cpu.cfs_quota_us`, its own and
// its ancestors', the least of them. `root` is the file system's root, another one in tests. Files
// that are missing or do not parse set no limit.
int CpuQuota(const std::filesystem::path& root = "/");

}  // namespace trainyard::engine
