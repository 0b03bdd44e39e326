#include "trainer/base/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

namespace trainyard::engine {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::string ReadWord(std::istream& in) {
  std::string word;
  in >> word;
  return word;
}

// quota / period; no limit for "max", -1 and whatever is no number.
double Limit(std::string_view quota, std::string_view period) {
  double microseconds = 0.0;
  double of = 0.0;
  if (std::from_chars(quota.data(), quota.data() + quota.size(), microseconds).ec != std::errc()) return kNoLimit;
  if (std::from_chars(period.data(), period.data() + period.size(), of).ec != std::errc()) return kNoLimit;
  return microseconds > 0 && of > 0 ? microseconds / of : kNoLimit;
}

double LimitV2(const std::filesystem::path& group) {
  std::ifstream file(group / "cpu.max");
  const std::string quota = ReadWord(file);
  return Limit(quota, ReadWord(file));
}

double LimitV1(const std::filesystem::path& group) {
  std::ifstream quota(group / "cpu.cfs_quota_us");
  std::ifstream period(group / "cpu.cfs_period_us");
  return Limit(ReadWord(quota), ReadWord(period));
}

// The least limit from `mount`/`group` up to `mount`. In a container without a cgroup namespace the
// group's own path is not mounted. The mount itself then holds the container's limit.
template <typename LimitOf>
double LeastLimit(const std::filesystem::path& mount, std::filesystem::path group, LimitOf limit_of) {
  double least = limit_of(mount);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) least = std::min(least, limit_of(mount / group));
  return least;
}

double CgroupLimit(const std::filesystem::path& root) {
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  double least = std::min(LimitV2(mounts), LimitV1(mounts / "cpu"));
  std::ifstream groups(root / "proc/self/cgroup");
  // "<id>:<controllers, separated by commas; none in v2>:<path>"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      least = std::min(least, LeastLimit(mounts, path, LimitV2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      least = std::min({least, LeastLimit(mounts / controllers, path, LimitV1), LeastLimit(mounts / "cpu", path, LimitV1)});
    }
  }
  return least;
}

int AffinityCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

int CpuQuota(const std::filesystem::path& root) {
  const double limit = CgroupLimit(root);
  const int affinity = AffinityCount();
  return std::max(1, limit < affinity ? static_cast<int>(std::floor(limit)) : affinity);
}

}  // namespace trainyard::engine
