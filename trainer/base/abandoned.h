// Leftovers of writers that died: hidden folders and temporary files that nobody will finish.
//
// A live writer holds a shared flock on what it writes. On a local file system that lock says all.
// Elsewhere (NFS, FUSE) locks of other machines are not seen: a thing counts as abandoned when it
// has not changed for kAbandonedAfter as well.
#pragma once

#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace trainyard::engine {

inline constexpr absl::Duration kAbandonedAfter = absl::Minutes(10);

// 16 hexadecimal digits of the system's random numbers: in names of temporary things, because all
// pods' processes have the id 1.
std::string RandomName();

// Whether a thing's writer is gone. `held`: its lock is. `local`: one kernel sees all locks of its
// file system. `quiet`: the time since its last change. Pure.
bool WriterIsGone(bool held, bool local, absl::Duration quiet);

// The same of a file or folder. False if it cannot be looked at.
bool IsAbandoned(const std::string& path);

// Removes the abandoned files and folders in `folder` whose names begin with `prefix`. A failed
// removal is logged.
void RemoveAbandoned(const std::string& folder, std::string_view prefix);
// Removes a file, or a folder with all that is in it, if it is abandoned.
void RemoveIfAbandoned(const std::string& path);

}  // namespace trainyard::engine
