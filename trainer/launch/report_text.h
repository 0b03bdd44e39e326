// The short summary that ends a run. Pure: report.json's text in, a screenful out.
#pragma once

#include <string>
#include <string_view>

namespace trainyard::engine {

// `report_json` as report.h writes it; `dir` is the run's folder and `file` the job file, both shown in what to try next.
std::string SummaryText(std::string_view report_json, std::string_view dir, std::string_view file);

}  // namespace trainyard::engine
