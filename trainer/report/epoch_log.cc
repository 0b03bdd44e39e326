#include "trainer/report/epoch_log.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/parse_json.h"
#include "trainer/report/report_fields.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMostBytes = 64 << 20;

std::string LineOf(const EpochRecord& epoch) { return ToJson(epoch).dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

// False: the line is none.
bool Read(const std::string& line, EpochRecord& epoch) {
  try {
    FromJson(ParseJson(line), epoch);
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

}  // namespace

std::vector<EpochRecord> EpochLog::GoOnFrom(int64_t step) {
  std::vector<EpochRecord> epochs;
  std::error_code ignored;  // a file that cannot be looked at cannot be read either
  if (!std::filesystem::exists(path_, ignored)) return epochs;
  const absl::StatusOr<std::string> text = ReadFile(path_, kMostBytes);
  if (!text.ok()) LogWarning("{}; the report's epochs begin at step {}", std::string(text.status().message()), step);
  std::istringstream lines(text.ok() ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    EpochRecord epoch;
    if (!Read(line, epoch)) continue;
    while (!epochs.empty() && epochs.back().step >= epoch.step) epochs.pop_back();
    epochs.push_back(std::move(epoch));
  }
  std::erase_if(epochs, [step](const EpochRecord& epoch) { return epoch.step < 1 || epoch.step > step; });
  std::string kept;
  for (const EpochRecord& epoch : epochs) kept += LineOf(epoch);
  Told(ReplaceFile(path_, kept));
  return epochs;
}

void EpochLog::Append(const EpochRecord& epoch) {
  std::ofstream file(path_, std::ios::app | std::ios::binary);
  file << LineOf(epoch) << std::flush;
  if (!file) Told(FileError(errno, "write", path_));
}

void EpochLog::Told(const absl::Status& status) {
  if (status.ok() || std::exchange(told_, true)) return;
  LogWarning("{}; a chief that is started again will not know the epochs so far", std::string(status.message()));
}

}  // namespace trainyard::engine
