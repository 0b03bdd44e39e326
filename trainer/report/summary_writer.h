// TensorBoard event files: records (trainer/tfrecord/tfrecord.h) of tensorflow.Event messages
// (proto/event.proto).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/picture/png.h"
#include "trainer/report/graph_summary.h"

namespace trainyard::engine {

struct SummaryWriterOptions {
  absl::Duration flush_every = absl::Seconds(10);
};

// Appends to one new file events.out.tfevents.<secs>.<host>.<pid>.<n> in `dir`; a resumed run adds
// a further file to the same folder, which TensorBoard joins by step. Not thread-safe. Events are
// written when `flush_every` has passed since the last write, at Flush() and at destruction. A file
// that cannot be written does not end a training. It is told once, and events are kept and tried
// again. The newest are dropped when there are too many.
class SummaryWriter {
 public:
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> Create(const std::string& dir, Clock& clock,
                                                               const SummaryWriterOptions& options = {});
  // The same, but a disk that is full is told, and the training does without summaries: null.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> CreateUnlessFull(const std::string& dir, Clock& clock);
  // What CreateUnlessFull makes of Create's result.
  static absl::StatusOr<std::unique_ptr<SummaryWriter>> UnlessFull(absl::StatusOr<std::unique_ptr<SummaryWriter>> created,
                                                                   const std::string& dir);
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // The training begins, or goes on, with `step` steps done. Events of later steps that other files
  // of the folder have are void: TensorBoard drops them, and its curves do not go back.
  absl::Status GoOnAfter(int64_t step);
  // A value outside float's range shows as infinite, NaN as NaN.
  absl::Status Scalar(int64_t step, std::string_view tag, double value);
  // 30 buckets; values that are not finite are left out.
  absl::Status Histogram(int64_t step, std::string_view tag, std::span<const float> values);
  absl::Status Image(int64_t step, std::string_view tag, const ImageView& image);
  absl::Status Text(int64_t step, std::string_view tag, std::string_view text);
  absl::Status Graph(std::span<const GraphSummaryNode> nodes);
  // How long each node of that graph took, in nanoseconds: TensorBoard's "Compute time" under the
  // name `tag`, once a file and tag.
  absl::Status NodeTimes(int64_t step, std::string_view tag, const std::map<std::string, int64_t>& nanos);
  absl::Status Flush();

  const std::string& path() const;

 private:
  struct State;
  explicit SummaryWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
