#include "trainer/base/visible_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "trainer/base/file_error.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = size_t{1} << 27;

}  // namespace

absl::StatusOr<std::vector<fs::directory_entry>> VisibleEntries(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->path().filename().native().starts_with('.')) entries.push_back(*entry);
    if (entries.size() > kMostEntries)
      return absl::InvalidArgumentError(fmt::format("{} has more than {} files", folder.string(), kMostEntries));
  }
  if (error) return FileError(error.value(), "read the folder", folder.string());
  std::ranges::sort(entries, {}, [](const fs::directory_entry& entry) { return entry.path().filename().native(); });
  return entries;
}

}  // namespace trainyard::engine
