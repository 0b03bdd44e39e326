#include "trainer/base/memory_room.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoBound = std::numeric_limits<int64_t>::max();

std::optional<int64_t> ReadNumber(const fs::path& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number && number >= 0) return number;
  return std::nullopt;  // missing, or "max"
}

// The number after `name` in lines of "name number" or "name: number unit"; 0 where there is none.
int64_t NumberOf(const fs::path& path, const std::string& name) {
  std::ifstream file(path);
  int64_t number = 0;
  for (std::string word; file >> word;) {
    if (word == name && file >> number) return number;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

int64_t RoomIn(const fs::path& group) {
  const std::optional<int64_t> most = ReadNumber(group / "memory.max");
  const std::optional<int64_t> used = ReadNumber(group / "memory.current");
  if (!most || !used) return kNoBound;
  // File pages that nobody uses go when memory is wanted.
  return std::max<int64_t>(0, *most - *used + NumberOf(group / "memory.stat", "inactive_file"));
}

int64_t CgroupRoom(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  int64_t least = RoomIn(mount);
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;  // v2
    for (fs::path group = fs::path(line.substr(3)).relative_path(); !group.empty(); group = group.parent_path()) {
      least = std::min(least, RoomIn(mount / group));
    }
  }
  return least;
}

int64_t AddressSpaceRoom(const fs::path& root) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoBound;
  const std::optional<int64_t> pages = ReadNumber(root / "proc/self/statm");
  return pages ? std::max<int64_t>(0, static_cast<int64_t>(limit.rlim_cur) - *pages * ::sysconf(_SC_PAGESIZE)) : kNoBound;
}

}  // namespace

MemoryRoom ReadMemoryRoom(const fs::path& root) {
  constexpr int64_t kKibibyte = 1024;
  MemoryRoom room;
  room.limit = std::min(CgroupRoom(root), AddressSpaceRoom(root));
  const int64_t machine = NumberOf(root / "proc/meminfo", "MemAvailable:");
  room.available = machine > 0 ? std::min(room.limit, machine * kKibibyte) : room.limit;
  return room;
}

}  // namespace trainyard::engine
