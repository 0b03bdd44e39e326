#include "trainer/launch/earlier_run.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/whole_number.h"
#include "trainer/profile/replica_profile.h"

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::array kParts = {"report.json", "report.html", "evaluation.json", "replicas", "config/training.json"};
constexpr int64_t kMostReportBytes = 64 << 20;

fs::path AsideIn(const std::string& dir) { return fs::path(dir) / ".earlier"; }

// Moves the parts that are there, each in place of what is there.
absl::Status MoveParts(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (const char* part : kParts) {
    if (!fs::exists(from / part, error)) continue;
    fs::remove_all(to / part, error);
    TY_RETURN_IF_ERROR(MakeDirectories((to / part).parent_path().string()));
    fs::rename(from / part, to / part, error);
    if (error) return FileError(error.value(), "move", (from / part).string());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EarlierRun> EarlierRun::SetAside(const std::string& dir) {
  EarlierRun run(dir);
  std::error_code error;
  const fs::path aside = AsideIn(dir);
  if (fs::exists(fs::path(dir) / "report.json", error) || !fs::exists(aside / "report.json", error)) {
    fs::remove_all(aside, error);
    TY_RETURN_IF_ERROR(MoveParts(dir, aside));
  } else {  // a launch was killed: its parts of a report tell nothing
    for (const char* part : kParts) fs::remove_all(fs::path(dir) / part, error);
  }
  const absl::StatusOr<std::string> text = ReadFile((aside / "report.json").string(), kMostReportBytes);
  const nlohmann::json report = text.ok() ? ParseJson(*text) : nlohmann::json(nlohmann::json::value_t::discarded);
  if (const auto state = report.find("state"); report.is_object() && state != report.end() && state->is_string()) run.state_ = *state;
  if (const auto steps = report.find("steps"); report.is_object() && steps != report.end()) run.steps_ = WholeNumber(*steps).value_or(0);
  return run;
}

bool EarlierRun::TellsMore(std::string_view state, int64_t steps) const {
  if (state_.empty()) return false;
  return state != "Succeeded" || (state_ == state && steps_ >= steps);
}

absl::Status EarlierRun::PutBack() const {
  TY_RETURN_IF_ERROR(MoveParts(AsideIn(dir_), dir_));
  Forget();
  return absl::OkStatus();
}

void EarlierRun::Forget() const {
  std::error_code ignored;  // the next launch removes what stays
  fs::remove_all(AsideIn(dir_), ignored);
}

EarlierProfiles::EarlierProfiles(const std::string& dir) : folder_(ProfileFolder(dir)), earlier_(ProfilesIn(folder_)) {}

EarlierProfiles::WrittenAt EarlierProfiles::ProfilesIn(const fs::path& folder) {
  WrittenAt profiles;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (const fs::directory_iterator end; !error && it != end; it.increment(error)) profiles[it->path()] = it->last_write_time(error);
  return profiles;
}

void EarlierProfiles::RemoveIfReplaced() const {
  const auto is_earlier = [this](const auto& profile) {
    const auto known = earlier_.find(profile.first);
    return known != earlier_.end() && known->second == profile.second;
  };
  const WrittenAt now = ProfilesIn(folder_);
  if (std::ranges::all_of(now, is_earlier)) return;
  std::error_code ignored;
  for (const auto& profile : now) {
    if (is_earlier(profile)) fs::remove(profile.first, ignored);
  }
}

}  // namespace trainyard::engine
