#include "trainer/profile/merge_profiles.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/profile/chrome_trace.h"
#include "trainer/profile/clock_offsets.h"
#include "trainer/profile/exchanges.h"
#include "trainer/profile/replica_profile.h"

namespace trainyard::engine {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();

nlohmann::ordered_json ClocksJson(std::span<const ReplicaProfile> profiles, std::span<const ClockOffset> offsets) {
  nlohmann::ordered_json clocks = nlohmann::ordered_json::array();
  for (size_t i = 0; i < profiles.size(); ++i) {
    clocks.push_back({{"replica", profiles[i].name()},
                      {"aligned", offsets[i].known},
                      {"offsetMicroseconds", static_cast<double>(offsets[i].nanos) / 1000},
                      {"uncertaintyMicroseconds", static_cast<double>(offsets[i].uncertainty) / 1000}});
  }
  return clocks;
}

absl::Status Write(const std::string& dir, const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [name, text] : files) TY_RETURN_IF_ERROR(ReplaceFile(dir + "/" + name, text));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<MergedProfiles>> MergeProfiles(const std::string& dir) {
  TY_ASSIGN_OR_RETURN(const std::vector<ReplicaProfile> profiles, ReadReplicaProfiles(dir));
  if (profiles.empty()) return std::nullopt;
  const std::vector<Exchange> exchanges = FindExchanges(profiles);
  const std::vector<ClockOffset> offsets = AlignClocks(profiles, exchanges);
  MergedProfiles merged{.table = MakeOperatorTable(profiles), .written = absl::OkStatus()};
  nlohmann::ordered_json json = ToJson(merged.table, kAll);
  json["clocks"] = ClocksJson(profiles, offsets);
  merged.written = Write(dir, {{"trace.json", ChromeTrace(profiles, exchanges, offsets)},
                               {"profile.txt", OperatorTableText(merged.table, kAll, kAll)},
                               {"profile.json", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"}});
  return merged;
}

}  // namespace trainyard::engine
