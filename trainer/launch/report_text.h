// The short summary that ends a run. Pure: report.json's text in, a screenful out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::engine {

struct SummaryContext {
  std::string_view dir;                    // the run's folder
  std::string_view checkpoints;            // its folder of checkpoints
  std::string_view summaries;              // and that of summaries
  std::string_view file;                   // the job file
  std::string_view called_as;              // what the user types to start this program, in what to try next
  std::string_view profile;                // operator_table.h; "" when nothing was profiled
  std::vector<std::string> overrides;      // --set of this run, for what to try next
  std::optional<bool> serves_best;         // what spec.serve would serve, where the job has it
  std::optional<int64_t> checkpoint_step;  // of the newest checkpoint
  bool has_page = true;                    // report.html was written
  std::function<bool(const std::string& path)> exists = [](const std::string&) { return true; };
};

// `report_json` as report.h writes it. A number that is null there was none: it is told as NaN,
// never as 0. A file or folder that does not exist is told as none.
std::string SummaryText(std::string_view report_json, const SummaryContext& context);

}  // namespace trainyard::engine
