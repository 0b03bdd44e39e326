#include "trainer/report/redone_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/parse_json.h"
#include "trainer/base/status_macros.h"
#include "trainer/base/whole_number.h"
#include "trainer/report/report_fields.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMaxLogBytes = 16 << 20;
constexpr int64_t kMaxReachedBytes = 100;
constexpr size_t kMostRecords = 10'000;
constexpr size_t kLongestReason = 1000;
constexpr const char* kNobodyKnows = "the chief was lost, and what was left held no later step";

std::string RecordsPath(const std::string& dir) { return dir + "/redone.json"; }
std::string ReachedPath(const std::string& dir) { return dir + "/reached"; }

// Of one length, so that one may be written over another.
std::string ReachedText(int64_t times, int64_t step) { return fmt::format("{:>19} {:>19}\n", times, step); }

absl::Status Remove(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) return absl::OkStatus();
  return FileError(errno, "remove", path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedoneLog>> RedoneLog::Open(std::string dir) {
  std::unique_ptr<RedoneLog> log(new RedoneLog(std::move(dir)));
  TY_RETURN_IF_ERROR(log->Read());
  return log;
}

absl::Status RedoneLog::Read() {
  const absl::StatusOr<std::string> text = ReadFile(RecordsPath(dir_), kMaxLogBytes);
  if (text.ok()) {
    const nlohmann::json log = ParseJson(*text);
    if (log.is_discarded()) {
      return absl::DataLossError(
          fmt::format("{} is damaged: no JSON of at most {} levels; remove the file", RecordsPath(dir_), kMostJsonLevels));
    }
    try {
      FromJson(log.at("redone"), records_);
      times_ = std::max(WholeField(log, "times", 0), static_cast<int64_t>(records_.size()));
    } catch (const nlohmann::json::exception& error) {
      return absl::DataLossError(fmt::format("{} is damaged: {}; remove the file", RecordsPath(dir_), error.what()));
    }
  } else if (!absl::IsNotFound(text.status())) {
    return text.status();
  }
  const absl::StatusOr<std::string> reached = ReadFile(ReachedPath(dir_), kMaxReachedBytes);
  if (absl::IsNotFound(reached.status())) return absl::OkStatus();
  TY_RETURN_IF_ERROR(reached.status());
  int64_t times = 0;
  int64_t step = 0;
  if (!(std::istringstream(*reached) >> times >> step)) step = times = 0;  // its node was lost before it was written
  // A chief that was lost between the two files has added a record, and began where that begins.
  reached_ = times < times_ && !records_.empty() ? records_.back().from : std::max<int64_t>(0, step);
  return absl::OkStatus();
}

absl::Status RedoneLog::Clear(const std::string& dir) {
  absl::Status removed = Remove(ReachedPath(dir));
  removed.Update(Remove(RecordsPath(dir)));
  return removed;
}

absl::Status RedoneLog::Forget() {
  records_.clear();
  times_ = 0;
  reached_ = -1;
  file_.reset();
  return Clear(dir_);
}

absl::StatusOr<std::optional<RedoneRecord>> RedoneLog::Begin(int64_t step, const std::optional<RedoneRecord>& known) {
  TY_RETURN_IF_ERROR(MakeDirectories(dir_));
  std::optional<RedoneRecord> added;
  if (const int64_t far = std::max(reached_, known ? known->to : -1); far > step) {
    added = RedoneRecord{
        .from = step, .to = far, .reason = known && !known->reason.empty() ? known->reason.substr(0, kLongestReason) : kNobodyKnows};
    records_.push_back(*added);
    ++times_;
    if (records_.size() > kMostRecords) records_.erase(records_.begin());
    TY_RETURN_IF_ERROR(TellIfMayPass(WriteRecords(), "the list of steps that were done again"));
  }
  reached_ = step;
  TY_RETURN_IF_ERROR(TellIfMayPass(WriteReached(), "how far the training has come"));
  return added;
}

absl::Status RedoneLog::WriteRecords() const {
  const nlohmann::ordered_json log = {{"times", times_}, {"redone", ToJson(records_)}};
  return ReplaceFile(RecordsPath(dir_), log.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

absl::Status RedoneLog::WriteReached() {
  file_.reset();
  const std::string path = ReachedPath(dir_);
  TY_RETURN_IF_ERROR(ReplaceFile(path, ReachedText(times_, reached_)));
  file_.emplace(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file_->get() >= 0 ? absl::OkStatus() : FileError(errno, "open", path);
}

void RedoneLog::Reach(int64_t step) {
  if (step <= reached_) return;
  reached_ = step;
  if (!file_) return;
  const std::string text = ReachedText(times_, step);
  if (::pwrite(file_->get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return;
  LogWarning("how far the training has come is not kept any more: cannot write {}: {}", ReachedPath(dir_), std::strerror(errno));
  file_.reset();
}

absl::Status RedoneLog::End() {
  reached_ = -1;
  file_.reset();
  return Remove(ReachedPath(dir_));
}

}  // namespace trainyard::engine
