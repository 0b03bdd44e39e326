#include "trainer/train/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTraceBytes = int64_t{1} << 32;

double Micros(absl::Duration duration) { return absl::ToDoubleMicroseconds(duration); }

std::string Line(const json& event) { return event.dump(-1, ' ', false, json::error_handler_t::replace); }

// The events of a trace, without the brackets and without a last line that was cut off.
std::string_view EventsOf(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos) return {};
  text.remove_prefix(open + 1);
  // Each event is one line; a whole one ends with "},", the last of a closed file with "}" before the bracket's line.
  for (size_t end : {text.rfind("}\n]"), text.rfind("},\n")}) {
    if (end != std::string_view::npos) return text.substr(0, end + 1);
  }
  return {};
}

}  // namespace

struct TraceWriter::State {
  int fd = -1;
  std::string path;
  int rank = 0;
  std::string pending;
  bool first = true;
  bool closed = false;
};

TraceWriter::TraceWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path, int rank, std::string_view process_name) {
  auto state = std::make_unique<State>();
  state->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (state->fd < 0) return FileError(errno, "create", path);
  state->path = path;
  state->rank = rank;
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(state)));
  writer->AddEvent(Line({{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", process_name}}}}));
  writer->AddEvent(Line({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", rank}, {"args", {{"sort_index", rank}}}}));
  return writer;
}

TraceWriter::~TraceWriter() {
  Close().IgnoreError();  // as the header says
  ::close(state_->fd);
}

void TraceWriter::AddEvent(std::string_view event) {
  state_->pending += state_->first ? "[\n" : ",\n";
  state_->pending += event;
  state_->first = false;
}

void TraceWriter::NameLane(int lane, std::string_view name) {
  AddEvent(Line({{"name", "thread_name"}, {"ph", "M"}, {"pid", state_->rank}, {"tid", lane}, {"args", {{"name", name}}}}));
}

void TraceWriter::Add(const TraceSpan& span) {
  json event = {{"name", span.name},
                {"cat", span.category},
                {"ph", "X"},
                {"ts", Micros(span.start - absl::UnixEpoch())},
                {"dur", Micros(span.duration)},
                {"pid", state_->rank},
                {"tid", span.lane}};
  if (span.step >= 0) event["args"] = {{"step", span.step}};
  AddEvent(Line(event));
}

absl::Status TraceWriter::Flush() {
  std::string_view bytes = state_->pending;
  while (!bytes.empty()) {
    const ssize_t written = ::write(state_->fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(errno, "write", state_->path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  state_->pending.clear();
  return absl::OkStatus();
}

absl::Status TraceWriter::Close() {
  if (state_->closed) return absl::OkStatus();
  state_->closed = true;
  state_->pending += "\n]\n";
  return Flush();
}

absl::StatusOr<std::vector<std::string>> MergeTraces(const std::vector<std::string>& parts, const std::string& output) {
  std::vector<std::string> missing;
  std::string merged = "[";
  for (const std::string& part : parts) {
    absl::StatusOr<std::string> text = ReadFile(part, kMaxTraceBytes);
    if (!text.ok()) {
      missing.push_back(part);
      continue;
    }
    const std::string_view events = EventsOf(*text);
    if (events.empty()) {
      missing.push_back(part);
      continue;
    }
    if (merged.size() > 1) merged += ",";
    merged += events;
  }
  merged += "\n]\n";
  TY_RETURN_IF_ERROR(ReplaceFile(output, merged));
  return missing;
}

}  // namespace trainyard::engine
