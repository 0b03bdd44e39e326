#include "trainer/report/redone_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"
#include "trainer/report/report_fields.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMaxLogBytes = 16 << 20;
constexpr size_t kMostRecords = 10'000;

std::string PathIn(const std::string& dir) { return dir + "/redone.json"; }

}  // namespace

absl::StatusOr<std::vector<RedoneRecord>> ReadRedone(const std::string& dir) {
  std::vector<RedoneRecord> records;
  const absl::StatusOr<std::string> text = ReadFile(PathIn(dir), kMaxLogBytes);
  if (absl::IsNotFound(text.status())) return records;
  TY_RETURN_IF_ERROR(text.status());
  try {
    FromJson(nlohmann::json::parse(*text).at("redone"), records);
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(fmt::format("{} is damaged: {}; remove the file", PathIn(dir), error.what()));
  }
  return records;
}

absl::Status AddRedone(const std::string& dir, const RedoneRecord& record) {
  TY_ASSIGN_OR_RETURN(std::vector<RedoneRecord> records, ReadRedone(dir));
  records.push_back(record);
  if (records.size() > kMostRecords) records.erase(records.begin());
  TY_RETURN_IF_ERROR(MakeDirectories(dir));
  return ReplaceFile(
      PathIn(dir),
      nlohmann::ordered_json{{"redone", ToJson(records)}}.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

absl::Status ClearRedone(const std::string& dir) {
  if (::unlink(PathIn(dir).c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
  return FileError(errno, "remove", PathIn(dir));
}

}  // namespace trainyard::engine
