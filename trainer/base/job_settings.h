// Settings of a job file that its replicas must have alike, in words.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::engine {

// (name, value): {"seed", "1"}. The order is that of the program, so the same everywhere.
using JobSettings = std::vector<std::pair<std::string, std::string>>;

struct SettingDifference {
  std::string name;
  std::string ours;  // "nothing": this side has no such setting
  std::string theirs;
};

// Of settings that both sides name, the first that differs; else the first that one side lacks.
std::optional<SettingDifference> FirstDifference(const JobSettings& ours, const JobSettings& theirs);

// The value of a setting, or null.
const std::string* FindSetting(const JobSettings& settings, const std::string& name);

}  // namespace trainyard::engine
