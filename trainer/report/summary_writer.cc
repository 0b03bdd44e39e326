#include "trainer/report/summary_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/report/histogram.h"
#include "trainer/report/proto/event.pb.h"
#include "trainer/tfrecord/tfrecord.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kFileVersion = "brain.Event:2";
constexpr int kDataTypeString = 7;
constexpr int kAttempts = 1000;
constexpr std::string_view kDevice = "/device:CPU:0";
// Written out before this, even when no time has passed: a bound on memory.
constexpr size_t kMaxPendingBytes = 4 << 20;

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace

struct SummaryWriter::State {
  State(Clock& with_clock, const SummaryWriterOptions& with_options) : clock(with_clock), options(with_options) {}
  ~State() {
    if (fd >= 0) ::close(fd);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  tensorboard::Event NewEvent(int64_t step) {
    tensorboard::Event event;
    event.set_wall_time(absl::ToDoubleSeconds(clock.Wall() - absl::UnixEpoch()));
    event.set_step(step);
    return event;
  }

  absl::Status Add(const tensorboard::Event& event) {
    if (failing && pending.size() >= kMaxPendingBytes) return absl::OkStatus();  // dropped
    AppendTfRecord(event.SerializeAsString(), pending);
    const bool full = pending.size() >= kMaxPendingBytes && !failing;  // a failing disk is tried at its times only
    if (clock.Now() - last_flush >= options.flush_every || full) return Flush();
    return absl::OkStatus();
  }

  // Records that could not be written are kept and tried again the next time. A record that was cut
  // by a full disk is then completed.
  absl::Status Flush() {
    last_flush = clock.Now();
    size_t done = 0;
    int error = 0;
    while (done < pending.size() && error == 0) {
      const ssize_t written = ::write(fd, pending.data() + done, pending.size() - done);
      if (written >= 0) {
        done += static_cast<size_t>(written);
      } else if (errno != EINTR) {
        error = errno;
      }
    }
    pending.erase(0, done);
    if (error == 0) {
      if (std::exchange(failing, false)) LogInfo("summaries are written again: {}", path);
    } else if (!std::exchange(failing, true)) {
      LogError("summaries are not written: {}. The training goes on without them; make room there, or set summary.everySteps: 0",
               std::string(FileError(error, "write", path).message()));
    }
    return absl::OkStatus();
  }

  Clock& clock;
  const SummaryWriterOptions options;
  std::string path;
  int fd = -1;
  std::string pending;
  absl::Time last_flush;
  bool failing = false;
};

SummaryWriter::SummaryWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}

SummaryWriter::~SummaryWriter() {
  state_->Flush().IgnoreError();  // nobody is left to tell
}

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Create(const std::string& dir, Clock& clock,
                                                                     const SummaryWriterOptions& options) {
  TY_RETURN_IF_ERROR(MakeDirectories(dir));
  auto state = std::make_unique<State>(clock, options);
  const int64_t seconds = absl::ToUnixSeconds(clock.Wall());
  const std::string host = HostName();
  // A second run in the same second gets a file of its own, never a share in the first one's.
  for (int attempt = 0; state->fd < 0; ++attempt) {
    state->path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", dir, seconds, host, ::getpid(), attempt);
    state->fd = ::open(state->path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (state->fd < 0 && (errno != EEXIST || attempt >= kAttempts)) return FileError(errno, "create", state->path);
  }
  state->last_flush = clock.Now();
  tensorboard::Event first = state->NewEvent(0);
  first.set_file_version(std::string(kFileVersion));
  TY_RETURN_IF_ERROR(state->Add(first));
  return std::unique_ptr<SummaryWriter>(new SummaryWriter(std::move(state)));
}

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::CreateUnlessFull(const std::string& dir, Clock& clock) {
  return UnlessFull(Create(dir, clock), dir);
}

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::UnlessFull(absl::StatusOr<std::unique_ptr<SummaryWriter>> created,
                                                                         const std::string& dir) {
  if (created.ok()) return created;
  TY_RETURN_IF_ERROR(TellIfMayPass(created.status(), fmt::format("the summary in {}", dir)));
  return nullptr;
}

absl::Status SummaryWriter::GoOnAfter(int64_t step) {
  tensorboard::Event event = state_->NewEvent(step + 1);  // TensorBoard drops this step and those behind it
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return state_->Add(event);
}

absl::Status SummaryWriter::Scalar(int64_t step, std::string_view tag, double value) {
  tensorboard::Event event = state_->NewEvent(step);
  tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(std::string(tag));
  entry.set_simple_value(static_cast<float>(value));
  return state_->Add(event);
}

absl::Status SummaryWriter::Histogram(int64_t step, std::string_view tag, std::span<const float> values) {
  const HistogramCounts counts = CountHistogram(values);
  tensorboard::Event event = state_->NewEvent(step);
  tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(std::string(tag));
  tensorboard::Histogram& histogram = *entry.mutable_histo();
  histogram.set_min(counts.min);
  histogram.set_max(counts.max);
  histogram.set_num(counts.count);
  histogram.set_sum(counts.sum);
  histogram.set_sum_squares(counts.sum_squares);
  // The limits are upper ones; an empty bucket first tells the lower one.
  histogram.add_bucket_limit(counts.min);
  histogram.add_bucket(0);
  for (size_t i = 0; i < counts.limits.size(); ++i) {
    histogram.add_bucket_limit(counts.limits[i]);
    histogram.add_bucket(counts.buckets[i]);
  }
  return state_->Add(event);
}

absl::Status SummaryWriter::Image(int64_t step, std::string_view tag, const ImageView& image) {
  absl::StatusOr<std::string> png = EncodePng(image);
  if (!png.ok()) return WithContext(png.status(), fmt::format("summary '{}'", tag));
  tensorboard::Event event = state_->NewEvent(step);
  tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(std::string(tag));
  tensorboard::Summary::Image& to = *entry.mutable_image();
  to.set_height(image.height);
  to.set_width(image.width);
  to.set_colorspace(image.channels);
  to.set_encoded_image_string(*std::move(png));
  return state_->Add(event);
}

absl::Status SummaryWriter::Text(int64_t step, std::string_view tag, std::string_view text) {
  tensorboard::Event event = state_->NewEvent(step);
  tensorboard::Summary::Value& entry = *event.mutable_summary()->add_value();
  entry.set_tag(std::string(tag));
  entry.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  entry.mutable_tensor()->set_dtype(kDataTypeString);
  entry.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  entry.mutable_tensor()->add_string_val(std::string(text));
  return state_->Add(event);
}

absl::Status SummaryWriter::Graph(std::span<const GraphSummaryNode> nodes) {
  tensorboard::Event event = state_->NewEvent(0);
  event.set_graph_def(SerializeGraph(nodes));
  return state_->Add(event);
}

absl::Status SummaryWriter::NodeTimes(int64_t step, std::string_view tag, const std::map<std::string, int64_t>& nanos) {
  constexpr int64_t kNanosPerMicro = 1000;
  tensorboard::RunMetadata metadata;
  tensorboard::RunMetadata::DeviceStepStats& device = *metadata.mutable_step_stats()->add_dev_stats();
  device.set_device(std::string(kDevice));
  int64_t begin = 0;
  for (const auto& [name, duration] : nanos) {
    tensorboard::RunMetadata::NodeExecStats& node = *device.add_node_stats();
    // TensorBoard adds up microseconds and leaves out what took none.
    const int64_t micros = std::max<int64_t>(1, (duration + kNanosPerMicro / 2) / kNanosPerMicro);
    node.set_node_name(name);
    node.set_all_start_micros(begin);
    node.set_op_end_rel_micros(micros);
    node.set_all_end_rel_micros(micros);
    node.set_all_end_rel_nanos(duration);
    begin += micros;
  }
  tensorboard::Event event = state_->NewEvent(step);
  event.mutable_tagged_run_metadata()->set_tag(std::string(tag));
  event.mutable_tagged_run_metadata()->set_run_metadata(metadata.SerializeAsString());
  return state_->Add(event);
}

absl::Status SummaryWriter::Flush() { return state_->Flush(); }

const std::string& SummaryWriter::path() const { return state_->path; }

}  // namespace trainyard::engine
