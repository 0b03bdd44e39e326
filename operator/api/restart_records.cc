#include "operator/api/restart_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "operator/api/index_set.h"
#include "operator/api/json_read.h"
#include "operator/base/timestamp.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr size_t kUidBeginning = 13;  // "1f0c2d3e-4a5b": 48 random bits
constexpr int kMostIndexes = 1 << 16;

// Of one record, or of several that are equal otherwise.
json Common(const RestartRecord& record) {
  json result = json::object();
  const auto put = [&](const char* key, int value) {
    if (value != 0) result[key] = value;
  };
  put("podRestarts", record.pod_restarts);
  put("podFreeRestarts", record.pod_free_restarts);
  if (record.pod_counted) result["podCounted"] = true;
  put("restarts", record.restarts);
  put("backoffStep", record.backoff_step);
  if (record.last_end != absl::InfinitePast()) result["lastEndTime"] = FormatMicroTimestamp(record.last_end);
  return result;
}

json Alone(const RestartRecord& record) {
  json entry = Common(record);
  entry["replica"] = record.replica;
  if (!record.pod_uid.empty()) entry["podUID"] = record.pod_uid;
  return entry;
}

// index → record; the records are equal but for replica and pod.
json Together(std::string_view role, const std::map<int, const RestartRecord*>& records) {
  json entry = Common(*records.begin()->second);
  std::set<int> indexes;
  json uids = json::array();
  bool any = false;
  for (const auto& [index, record] : records) {
    indexes.insert(index);
    uids.push_back(record->pod_uid.substr(0, kUidBeginning));
    any |= !record->pod_uid.empty();
  }
  entry["replica"] = role;
  entry["indexes"] = FormatIndexes(indexes);
  if (any) entry["podUIDs"] = std::move(uids);
  return entry;
}

RestartRecord ReadRecord(const json& entry) {
  RestartRecord record;
  record.replica = json_read::String(entry, "replica");
  record.pod_uid = json_read::String(entry, "podUID");
  record.pod_restarts = std::max(0, json_read::Int(entry, "podRestarts"));
  record.pod_free_restarts = std::clamp(json_read::Int(entry, "podFreeRestarts"), 0, record.pod_restarts);
  record.pod_counted = json_read::Bool(entry, "podCounted");
  record.restarts = std::max(0, json_read::Int(entry, "restarts"));
  record.backoff_step = std::max(0, json_read::Int(entry, "backoffStep"));
  record.last_end = json_read::Time(entry, "lastEndTime");
  return record;
}

}  // namespace

json RestartRecordsToJson(const std::vector<RestartRecord>& records) {
  json entries;
  if (records.size() <= kRecordsAlone) {
    for (const RestartRecord& record : records) entries.push_back(Alone(record));
    return entries;
  }
  // role and the records' common fields → index → record
  std::map<std::pair<std::string, std::string>, std::map<int, const RestartRecord*>> groups;
  for (const RestartRecord& record : records) {
    const size_t dash = record.replica.rfind('-');
    int index = 0;
    const char* const end = record.replica.data() + record.replica.size();
    const bool numbered =
        dash != std::string::npos && std::from_chars(record.replica.data() + dash + 1, end, index).ptr == end && index >= 0;
    if (!numbered) {
      entries.push_back(Alone(record));
      continue;
    }
    groups[{record.replica.substr(0, dash), Common(record).dump()}][index] = &record;
  }
  for (const auto& [key, members] : groups) {
    entries.push_back(members.size() == 1 ? Alone(*members.begin()->second) : Together(key.first, members));
  }
  return entries;
}

std::vector<RestartRecord> RestartRecordsFromJson(const json& entries) {
  std::vector<RestartRecord> records;
  if (!entries.is_array()) return records;
  for (const json& entry : entries) {
    RestartRecord record = ReadRecord(entry);
    const std::string indexes = json_read::String(entry, "indexes");
    if (indexes.empty()) {
      records.push_back(std::move(record));
      continue;
    }
    const json& uids = json_read::Get(entry, "podUIDs");
    size_t at = 0;
    for (const int index : ParseIndexes(indexes, kMostIndexes)) {
      RestartRecord& one = records.emplace_back(record);
      one.replica = fmt::format("{}-{}", record.replica, index);
      if (uids.is_array() && at < uids.size() && uids[at].is_string()) one.pod_uid = uids[at].get<std::string>();
      ++at;
    }
  }
  std::ranges::sort(records, {}, &RestartRecord::replica);
  return records;
}

bool NamesPod(const RestartRecord& record, std::string_view pod_uid) {
  return !record.pod_uid.empty() && pod_uid.starts_with(record.pod_uid);
}

}  // namespace trainyard::control
