// The records of report.json, field by field: written the same way into a replica's part and into the whole report.
#pragma once

#include <nlohmann/json.hpp>

#include "trainer/train/report.h"

namespace trainyard::engine {

nlohmann::ordered_json ToJson(const EpochRecord& record);
nlohmann::ordered_json ToJson(const WorkerRecord& record);
nlohmann::ordered_json ToJson(const ServerRecord& record);
nlohmann::ordered_json ToJson(const Staleness& staleness);
nlohmann::ordered_json ToJson(const RestartRecord& record);
nlohmann::ordered_json ToJson(const BestRecord& record);
nlohmann::ordered_json ToJson(const EarlyStopRecord& record);

}  // namespace trainyard::engine
