// Chrome's trace format: a JSON array of events, read by chrome://tracing and Perfetto. The closing bracket is optional there, so a killed
// run leaves a readable file. Source: "Trace Event Format" by the Chromium project.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trainyard::engine {

// One complete event ("ph": "X").
struct TraceSpan {
  std::string_view name;
  std::string_view category;  // "input", "compute", "communication", "node"
  absl::Time start;
  absl::Duration duration;
  int lane = 0;       // the row below the process: 0 steps, 1 phases, 2 nodes
  int64_t step = -1;  // shown among the event's arguments when >= 0
};

// One process of the trace: `rank` is its pid, `process_name` its label ("worker 0"). Not thread-safe.
class TraceWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TraceWriter>> Create(const std::string& path, int rank, std::string_view process_name);
  ~TraceWriter();
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void NameLane(int lane, std::string_view name);
  void Add(const TraceSpan& span);
  // Writes what is buffered (Add only buffers: call this every so many steps). The file is then a prefix of a JSON array.
  absl::Status Flush();
  // Writes the closing bracket; the destructor does so if nobody else did, and loses the error.
  absl::Status Close();

 private:
  struct State;
  explicit TraceWriter(std::unique_ptr<State> state);
  void AddEvent(std::string_view event);
  std::unique_ptr<State> state_;
};

// One file for all ranks: joins the parts (each a trace, whole or cut off) into `output`. A part that is missing is left out and named in
// the result.
absl::StatusOr<std::vector<std::string>> MergeTraces(const std::vector<std::string>& parts, const std::string& output);

}  // namespace trainyard::engine
