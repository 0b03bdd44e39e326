#include "trainer/base/job_settings.h"

#include <algorithm>

namespace trainyard::engine {

const std::string* FindSetting(const JobSettings& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &JobSettings::value_type::first);
  return found == settings.end() ? nullptr : &found->second;
}

std::optional<SettingDifference> FirstDifference(const JobSettings& ours, const JobSettings& theirs) {
  std::optional<SettingDifference> lack;
  for (const auto& [name, value] : ours) {
    const std::string* const there = FindSetting(theirs, name);
    if (there == nullptr && !lack) lack = SettingDifference{name, value, "nothing"};
    if (there != nullptr && *there != value) return SettingDifference{name, value, *there};
  }
  for (const auto& [name, value] : theirs) {
    if (!lack && FindSetting(ours, name) == nullptr) lack = SettingDifference{name, "nothing", value};
  }
  return lack;
}

}  // namespace trainyard::engine
