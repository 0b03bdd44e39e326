// Runs side by side: where their job files differ, and their end results.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

struct ComparedValue {
  std::string name;                 // a field of the job file, or a result
  std::vector<std::string> values;  // one for each run; "–": it has none
};

struct Comparison {
  std::vector<std::string> names;       // of the runs: the ends of their folders that tell them apart
  std::vector<ComparedValue> settings;  // those that are not the same in all runs
  std::vector<ComparedValue> results;
};

// Of what RunReader::Read has given. `dirs` are the runs' folders.
Comparison Compare(std::span<const std::string> dirs, std::span<const nlohmann::ordered_json> runs);

// For a terminal. Control characters of the runs' texts are shown as "?", long texts are cut.
std::string ComparisonText(const Comparison& comparison);

// What PageHtml takes: the runs with their curves, and the comparison.
nlohmann::ordered_json ComparisonPage(const Comparison& comparison, std::span<const nlohmann::ordered_json> runs);

}  // namespace trainyard::engine
