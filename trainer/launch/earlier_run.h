// What an earlier launch left in an output folder, while a new one runs there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// The report of the earlier launch, with all that belongs to it: report.json, report.html,
// evaluation.json, replicas/ and config/training.json. They wait in <dir>/.earlier until the new
// launch is over. One that trains no step puts them back: they tell how the training went. A launch
// that is killed leaves them there for the next one.
class EarlierRun {
 public:
  // A folder without any of them is fine. An error names the file.
  static absl::StatusOr<EarlierRun> SetAside(const std::string& dir);

  // Whether its report tells more of the folder's training than that of a launch which ended in
  // `state` at `steps` and trained no step: it is there, and it had come as far.
  bool TellsMore(std::string_view state, int64_t steps) const;
  // In place of what is there now.
  absl::Status PutBack() const;
  void Forget() const;

 private:
  explicit EarlierRun(std::string dir) : dir_(std::move(dir)) {}

  std::string dir_;
  std::string state_;  // of its report; "": it has none
  int64_t steps_ = 0;
};

// Profiles of an earlier launch. They stay until the replicas of a new one have written their own:
// a run that goes on behind the profiled steps writes none.
class EarlierProfiles {
 public:
  // Takes note of those that are there.
  explicit EarlierProfiles(const std::string& dir);

  // Removes them, if newer ones are beside them or in their place.
  void RemoveIfReplaced() const;

 private:
  using WrittenAt = std::map<std::filesystem::path, std::filesystem::file_time_type>;
  static WrittenAt ProfilesIn(const std::filesystem::path& folder);

  std::filesystem::path folder_;
  WrittenAt earlier_;
};

}  // namespace trainyard::engine
