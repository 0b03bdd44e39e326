// How many processors this process may use: what thread pools are sized by.
#pragma once

#include <filesystem>

namespace trainyard::engine {

// The processors in this thread's affinity mask, no more than the whole processors that the cgroup's quota allows (cgroup v2 `cpu.max` or
// v1 `cpu.cfs_quota_us`, its own and its ancestors', the least of them); at least 1. `root` is the file system's root, another one in
// tests. Files that are missing or do not parse set no limit.
int CpuQuota(const std::filesystem::path& root = "/");

}  // namespace trainyard::engine
