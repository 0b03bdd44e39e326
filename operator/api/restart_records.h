// status.restartRecords as JSON. In a job with many records, records that differ only in replica
// and pod share one entry. So a disruption of thousands of replicas at once does not make a status
// of hundreds of kilobytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "operator/api/training_job.h"

namespace trainyard::control {

// So many records have an entry each; of more, {"replica": "worker", "indexes": "0-998", "podUIDs":
// ["1f0c…", …], …} holds all of a role that are equal otherwise. `podUIDs` follow the indexes, with
// the beginnings of the uids, "" for a record without; absent where none has one. Null without
// records.
inline constexpr size_t kRecordsAlone = 32;

nlohmann::json RestartRecordsToJson(const std::vector<RestartRecord>& records);
// Hostile JSON reads as far as it makes sense.
std::vector<RestartRecord> RestartRecordsFromJson(const nlohmann::json& entries);

// Whether a record names this pod: by its whole uid, or by its beginning.
bool NamesPod(const RestartRecord& record, std::string_view pod_uid);

}  // namespace trainyard::control
