// The page of one run or of several, as one HTML file that needs nothing else.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace trainyard::engine {

// {"runs": [RunReader::Read …], "live": true of a run that trains, "comparison" (compare_runs.h)}
// → HTML. The data are a JSON block that no browser runs or takes for markup, whatever its strings
// are. The page's Content-Security-Policy allows its own two scripts by their SHA-256, and nothing
// from anywhere else: a string that became a script by our mistake would not be run.
std::string PageHtml(const nlohmann::ordered_json& data);

// JSON for within <script>: ASCII, without <, > and &.
std::string ScriptJson(const nlohmann::ordered_json& data);

// Writes <dir>/report.html from the files of the run's output folder. Of a run without a
// report.json it has what there is, and `unfinished`.
absl::Status WriteReportPage(const std::string& dir);

}  // namespace trainyard::engine
