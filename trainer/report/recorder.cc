#include "trainer/report/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "trainer/base/counted.h"
#include "trainer/base/file.h"
#include "trainer/base/log.h"
#include "trainer/base/process_usage.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/batch.h"
#include "trainer/report/number_text.h"
#include "trainer/report/redone_log.h"
#include "trainer/report/summarize_graph.h"
#include "trainer/report/termination_message.h"
#include "trainer/report/usage_summary.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kPublishPeriod = absl::Milliseconds(100);
constexpr int kImages = 4;
constexpr size_t kMostStragglerRecords = 100;

}  // namespace

Recorder::Recorder(RecorderOptions options, Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      usage_(clock.Now(), ReadProcessUsage()),
      summary_cpu_(clock.Now(), ReadProcessUsage()),
      gpus_(options_.gpus) {}

absl::StatusOr<std::unique_ptr<Recorder>> Recorder::Create(RecorderOptions options, Clock& clock) {
  std::unique_ptr<Recorder> recorder(new Recorder(std::move(options), clock));
  const RecorderOptions& o = recorder->options_;
  TY_ASSIGN_OR_RETURN(recorder->server_,
                      ProgressServer::Start({.host = o.listen_host, .port = o.http_port, .role = o.role, .index = o.index}));
  const std::string name = fmt::format("{}-{}", o.role, o.index);
  TY_RETURN_IF_ERROR(MakeDirectories(o.output + "/replicas"));
  if (o.chief) recorder->epochs_.emplace(o.output);
  if (!o.summary_dir.empty() && o.summary_every > 0) {
    const std::string dir = fmt::format("{}/{}", o.summary_dir, name);
    TY_ASSIGN_OR_RETURN(recorder->summaries_, SummaryWriter::CreateUnlessFull(dir, clock));
  }
  return recorder;
}

absl::Status Recorder::OnGraph(const Graph& graph) {
  if (!summaries_) return absl::OkStatus();
  return summaries_->Graph(SummarizeGraph(graph));
}

absl::Status Recorder::OnImages(const Batch& batch) {
  const Shape& shape = batch.x.shape;
  if (!summaries_ || batch.x.dtype != DType::kU8 || shape.rank() != 4) return absl::OkStatus();
  if (!HasPngForm(shape[1], shape[2], shape[3])) return absl::OkStatus();
  const int64_t pixels = shape[1] * shape[2] * shape[3];
  for (int64_t i = 0; i < std::min<int64_t>(kImages, batch.examples); ++i) {
    TY_RETURN_IF_ERROR(
        summaries_->Image(0, fmt::format("input/{}", i),
                          {.height = static_cast<int>(shape[1]),
                           .width = static_cast<int>(shape[2]),
                           .channels = static_cast<int>(shape[3]),
                           .pixels = batch.x.values<uint8_t>().subspan(static_cast<size_t>(i * pixels), static_cast<size_t>(pixels))}));
  }
  return absl::OkStatus();
}

absl::Status Recorder::OnNodeTimes(const StepRange& steps, const std::map<std::string, int64_t>& nanos) {
  if (!summaries_ || !options_.chief) return absl::OkStatus();
  return summaries_->NodeTimes(steps.end - 1, fmt::format("steps {}-{}", steps.begin, steps.end - 1), nanos);
}

void Recorder::OnWait(const std::string& waiting) {
  progress_.waiting = waiting;
  server_->Update(progress_);
}

void Recorder::OnWarning(const std::string& warning) {
  progress_.warning = warning;
  server_->Update(progress_);
}

void Recorder::OnStart(int64_t global_step, int64_t total_steps) {
  const absl::Time now = clock_.Now();
  meters_.Start(now);
  job_meters_.Start(now);
  epoch_start_ = now;
  last_global_step_ = global_step;
  if (epochs_) history_ = epochs_->GoOnFrom(global_step);
  epoch_loss_ = std::exchange(resumed_epoch_loss_, {});
  progress_.step = global_step;
  progress_.unit = options_.unit;
  progress_.total_steps = total_steps;
  progress_.updated_time = clock_.Wall();
  server_->Update(progress_);
  GoOnAfter(global_step);
}

void Recorder::GoOnAfter(int64_t global_step) {
  if (summaries_) summaries_->GoOnAfter(global_step).IgnoreError();  // the writer tells what it cannot write
}

void Recorder::OnRollback(int64_t global_step, int64_t total_steps) {
  // Where ranks formed a group anew without a step that is done again, the epoch goes on.
  EpochLoss resumed = std::exchange(resumed_epoch_loss_, {});
  if (global_step < last_global_step_) epoch_loss_ = resumed;
  last_global_step_ = global_step;
  std::erase_if(history_, [global_step](const EpochRecord& record) { return record.step > global_step; });
  progress_.step = global_step;
  progress_.total_steps = total_steps;
  progress_.stopped_early.clear();
  if (progress_.last_checkpoint_step > global_step) progress_.last_checkpoint_step = global_step;
  server_->Update(progress_);
  GoOnAfter(global_step);
}

absl::Status Recorder::OnStep(const StepRecord& step) {
  meters_.AddTime(Phase::kInput, step.input_done - step.start);
  meters_.AddTime(Phase::kCompute, step.compute_done - step.input_done);
  meters_.AddTime(Phase::kCommunication, step.end - step.compute_done);
  if (step.examples == 0) {  // no examples, so no loss
    last_global_step_ = step.global_step;
    if (step.end - last_published_ >= kPublishPeriod) Publish(step);
    return absl::OkStatus();
  }
  meters_.AddStep(step.end, step.examples, step.loss);
  input_times_.Add(step.input);
  const int64_t steps_of_all = std::max<int64_t>(0, step.global_step - last_global_step_);
  job_meters_.AddStep(step.end, steps_of_all * options_.batch_size, step.loss);
  last_global_step_ = step.global_step;
  if (step.skipped) {
    ++skipped_;
  } else {
    epoch_loss_.Add(step.epoch, step.loss, step.examples);
  }
  loss_scale_ = step.loss_scale;
  if (step.overflowed) ++overflowed_;
  staleness_sum_ += static_cast<double>(step.staleness);
  staleness_.max = std::max(staleness_.max, step.staleness);
  WatchLoss(step);
  if (step.end - last_published_ >= kPublishPeriod) Publish(step);
  if (usage_.Due(step.end)) usage_.Add(step.end, ReadProcessUsage());
  if (gpus_.Due(step.end)) gpus_.Sample(step.end);
  if (!summaries_ || step.step % options_.summary_every != 0) return absl::OkStatus();
  TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, "loss", step.loss));
  if (options_.chief) TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, "learning_rate", step.learning_rate));
  if (step.loss_scale) TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, "loss_scale", *step.loss_scale));
  TY_RETURN_IF_ERROR(SummarizeUsage(step.global_step, step.end, ReadProcessUsage(), summary_cpu_, *summaries_));
  TY_RETURN_IF_ERROR(SummarizeGpus(step.global_step, gpus_.readings(), *summaries_));
  if (options_.perplexity) TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, "perplexity", std::exp(step.loss)));
  TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, fmt::format("speed/{}_per_second", options_.unit.name),
                                        meters_.ExamplesPerSecond() * static_cast<double>(options_.unit.per_example)));
  TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, "time/input_ms", absl::ToDoubleMilliseconds(step.input_done - step.start)));
  TY_RETURN_IF_ERROR(
      summaries_->Scalar(step.global_step, "time/compute_ms", absl::ToDoubleMilliseconds(step.compute_done - step.input_done)));
  InputTimes input;
  input.Add(step.input);
  for (const auto& [stage, seconds] : input.seconds()) {
    TY_RETURN_IF_ERROR(summaries_->Scalar(step.global_step, fmt::format("time/input/{}_ms", stage), seconds * 1e3));
  }
  return summaries_->Scalar(step.global_step, "time/update_ms", absl::ToDoubleMilliseconds(step.end - step.compute_done));
}

void Recorder::WatchLoss(const StepRecord& step) {
  loss_watch_.Add(step.loss, meters_.SmoothedLoss().value_or(step.loss));
  if (warned_of_loss_ || !loss_watch_.far_above()) return;
  warned_of_loss_ = true;
  progress_.warning = fmt::format("step {}: {}", step.global_step, loss_watch_.Text(MeanStaleness()));
  LogWarning("{}", progress_.warning);
}

void Recorder::OnNotFinite(const StepRecord& step) {
  progress_.step = last_global_step_;
  progress_.loss = step.loss;
  server_->Update(progress_);
  if (!summaries_) return;
  absl::Status written = summaries_->Scalar(last_global_step_ + 1, "loss", step.loss);
  written.Update(summaries_->Flush());
  if (!written.ok()) LogWarning("{}", std::string(written.message()));
}

void Recorder::Publish(const StepRecord& step) {
  if (redone_ != nullptr) redone_->Reach(step.global_step);
  last_published_ = step.end;
  progress_.step = step.global_step;
  progress_.epoch = step.epoch;
  progress_.loss = meters_.SmoothedLoss();
  if (options_.perplexity && progress_.loss) progress_.perplexity = std::exp(*progress_.loss);
  progress_.examples_per_second = job_meters_.ExamplesPerSecond();
  progress_.batches_per_second = progress_.examples_per_second / static_cast<double>(options_.batch_size);
  progress_.eta.reset();
  if (progress_.batches_per_second > 0) {
    progress_.eta =
        absl::Seconds(static_cast<double>(std::max<int64_t>(0, progress_.total_steps - step.global_step)) / progress_.batches_per_second);
  }
  progress_.updated_time = clock_.Wall();
  progress_.input_seconds = absl::ToDoubleSeconds(meters_.time_split().input);
  progress_.compute_seconds = absl::ToDoubleSeconds(meters_.time_split().compute);
  progress_.communication_seconds = absl::ToDoubleSeconds(meters_.time_split().communication);
  progress_.input_stages = input_times_.seconds();
  progress_.gpus = gpus_.readings();
  server_->Update(progress_);
}

absl::Status Recorder::OnEpoch(int64_t epoch, int64_t global_step, const std::map<std::string, double>& eval,
                               const ParameterSet& parameters) {
  const EpochLoss loss = std::exchange(epoch_loss_, {});
  if (!history_.empty() && history_.back().step == global_step) {
    // A run that was rolled back after its last step, or goes on from there, ends once more.
    if (history_.back().eval.empty()) history_.back().eval = eval;
    return absl::OkStatus();
  }
  const absl::Time now = clock_.Now();
  EpochRecord record{.epoch = epoch,
                     .step = global_step,
                     .loss = loss.Mean(),
                     .seconds = absl::ToDoubleSeconds(now - epoch_start_),
                     .perplexity = std::nullopt,
                     .eval = eval};
  if (options_.perplexity) record.perplexity = std::exp(record.loss);
  epoch_start_ = now;
  const std::string perplexity = record.perplexity ? ", perplexity " + PerplexityText(*record.perplexity) : "";
  const std::string loss_text = std::isnan(record.loss) ? "no loss, for no batch" : "loss " + MetricText(record.loss);
  LogInfo("epoch {}: step {}, {}{}, {:.2f} s", epoch, global_step, loss_text, perplexity, record.seconds);
  for (const auto& [name, value] : eval) {
    LogInfo("epoch {}: evaluation {} {}", epoch, name, MetricText(value));
    progress_.metrics[name] = value;
  }
  history_.push_back(std::move(record));
  if (epochs_) epochs_->Append(history_.back());
  server_->Update(progress_);
  if (!summaries_ || !options_.chief) return absl::OkStatus();
  for (int key = 0; key < parameters.size(); ++key) {
    TY_RETURN_IF_ERROR(summaries_->Histogram(global_step, parameters.spec(key).name, parameters.values(key)));
  }
  return absl::OkStatus();
}

void Recorder::OnCheckpoint(int64_t global_step) {
  progress_.last_checkpoint_step = global_step;
  server_->Update(progress_);
}

void Recorder::OnEvaluation(const Evaluation& evaluation, const std::optional<MetricTracker::Best>& best) {
  for (const auto& [name, value] : evaluation.metrics) progress_.metrics[name] = value;
  if (best) progress_.best_checkpoint_step = best->step;
  progress_.evaluations.push_back(evaluation);
  if (progress_.evaluations.size() > Progress::kMostEvaluations) progress_.evaluations.erase(progress_.evaluations.begin());
  for (EpochRecord& record : history_) {
    if (record.step == evaluation.step && record.eval.empty()) record.eval = evaluation.metrics;
  }
  server_->Update(progress_);
}

absl::Status Recorder::OnOwnEvaluation(const Evaluation& evaluation, const std::optional<MetricTracker::Best>& best) {
  OnEvaluation(evaluation, best);
  if (!summaries_) return absl::OkStatus();
  for (const auto& [name, value] : evaluation.metrics) {
    TY_RETURN_IF_ERROR(summaries_->Scalar(evaluation.step, "eval/" + name, value));
  }
  return summaries_->Flush();
}

void Recorder::FlushSummaries() {
  if (!summaries_) return;
  if (const absl::Status flushed = summaries_->Flush(); !flushed.ok()) LogWarning("{}", std::string(flushed.message()));
}

void Recorder::OnStoppedEarly(const std::string& reason) {
  progress_.stopped_early = reason;
  progress_.total_steps = last_global_step_;
  server_->Update(progress_);
}

void Recorder::OnRestart(RestartRecord record) {
  const std::string lost = record.lost_steps > 0 ? fmt::format(", {} lost", Counted(record.lost_steps, "step")) : "";
  LogWarning("{}: {} (step {}{})", record.replica, record.reason, record.step, lost);
  restarts_.push_back(std::move(record));
}

void Recorder::OnSkippedCheckpoints(std::vector<RestartRecord> records) {
  if (records.empty()) return;
  int64_t lost = 0;
  for (const RestartRecord& record : records) lost += record.lost_steps;
  const std::string others = records.size() > 1 ? fmt::format(", and {} more", records.size() - 1) : "";
  progress_.warning = fmt::format("{}{}: the training goes on from step {}, and {} lost", records.front().reason, others,
                                  records.front().step, Counted(lost, "step is", "steps are"));
  server_->Update(progress_);
  for (RestartRecord& record : records) OnRestart(std::move(record));
}

void Recorder::OnStragglerBegins(StragglerRecord record) {
  if (progress_.stragglers.size() < Progress::kMostStragglers) progress_.stragglers.push_back(record.replica);
  if (stragglers_.size() < kMostStragglerRecords) stragglers_.push_back(std::move(record));
  server_->Update(progress_);
}

void Recorder::OnStragglerEnds(const std::string& replica, int64_t global_step) {
  std::erase(progress_.stragglers, replica);
  for (StragglerRecord& record : stragglers_) {
    if (record.replica == replica && !record.to) record.to = global_step;
  }
  server_->Update(progress_);
}

void Recorder::OnStopped(int64_t checkpointed_step) { WriteTerminationMessage(checkpointed_step); }

void Recorder::WriteTerminationMessage(int64_t step) {
  if (!std::filesystem::exists(options_.termination_log)) return;
  progress_.step = step;
  progress_.loss = meters_.SmoothedLoss();
  progress_.updated_time = clock_.Wall();
  progress_.stragglers.clear();
  progress_.evaluations.clear();  // the message is short; `metrics` has the newest
  const absl::Status left = LeaveTerminationMessage(options_.termination_log, ProgressJson(progress_));
  if (!left.ok()) LogWarning("{}; the job's status may lack the last evaluation", std::string(left.message()));
}

absl::Status Recorder::Finish(ReplicaReport report, int64_t bytes_sent, int64_t bytes_received) {
  if (options_.chief) {
    progress_.total_steps = std::max(last_global_step_, report.steps);
    progress_.eta = absl::ZeroDuration();
    WriteTerminationMessage(progress_.total_steps);
  }
  return WriteReport(std::move(report), bytes_sent, bytes_received);
}

absl::Status Recorder::WriteReport(ReplicaReport report, int64_t bytes_sent, int64_t bytes_received) {
  FlushSummaries();
  report.role = options_.role;
  report.index = options_.index;
  report.chief = options_.chief;
  report.unit = options_.unit;
  report.history = history_;
  report.restarts = restarts_;
  report.stragglers = stragglers_;
  report.worker = WorkerRecord{.index = options_.index,
                               .batches = meters_.steps(),
                               .examples = meters_.examples(),
                               .skipped = skipped_,
                               .loss_scale = loss_scale_,
                               .overflowed = loss_scale_ ? std::optional<int64_t>(overflowed_) : std::nullopt,
                               .seconds = absl::ToDoubleSeconds(meters_.elapsed()),
                               .input_seconds = absl::ToDoubleSeconds(meters_.time_split().input),
                               .input_stages = {input_times_.seconds().begin(), input_times_.seconds().end()},
                               .compute_seconds = absl::ToDoubleSeconds(meters_.time_split().compute),
                               .communication_seconds = absl::ToDoubleSeconds(meters_.time_split().communication),
                               .slot_bytes = slot_bytes_,
                               .bytes_sent = bytes_sent,
                               .bytes_received = bytes_received,
                               .usage = usage_.Conclude(clock_.Now(), ReadProcessUsage()),
                               .gpus = gpus_.Conclude(clock_.Now())};
  staleness_.mean = MeanStaleness();
  report.staleness = staleness_;
  report.first_loss = loss_watch_.start();
  report.last_loss = meters_.SmoothedLoss();
  if (loss_watch_.far_above()) report.warning = loss_watch_.Text(staleness_.mean);
  return WriteReplicaReport(options_.output, report);
}

}  // namespace trainyard::engine
