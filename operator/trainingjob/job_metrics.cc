#include "operator/trainingjob/job_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>

#include "operator/plan/conditions.h"

namespace trainyard::control {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

prometheus::Counter& Count(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}

std::string PhaseLabel(const std::optional<JobPhase>& phase) { return phase ? std::string(Name(*phase)) : ""; }

std::string StallOf(const TrainingJobStatus& status) {
  const Condition* const stalled = status.Finished() ? nullptr : status.Find(kStalled);
  return stalled != nullptr && stalled->status ? stalled->reason : "";
}

template <typename Number>
std::optional<double> Real(const std::optional<Number>& value) {
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

}  // namespace

JobMetrics::JobMetrics(prometheus::Registry& registry, size_t max_progress_jobs)
    : max_progress_jobs_(max_progress_jobs),
      phases_(Gauges(registry, "trainyard_jobs", "Jobs by phase.")),
      stalled_(Gauges(registry, "trainyard_jobs_stalled", "Jobs that something holds, by the reason of their condition Stalled.")),
      created_(Count(registry, "trainyard_jobs_created_total", "Jobs whose children this operator began to create.")),
      succeeded_(Count(registry, "trainyard_jobs_succeeded_total", "Jobs that succeeded.")),
      failed_(Count(registry, "trainyard_jobs_failed_total", "Jobs that failed.")),
      restarts_(Count(registry, "trainyard_job_restarts_total", "Restarts of replicas that spent backoffLimit.")),
      disruptions_(Count(registry, "trainyard_job_disruptions_total", "Replicas recreated without spending backoffLimit.")),
      time_to_running_(BuildHistogram()
                           .Name("trainyard_job_time_to_running_seconds")
                           .Help("From a job's creation to all its replicas ready.")
                           .Register(registry)
                           .Add({}, prometheus::Histogram::BucketBoundaries{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600})),
      progress_{
          {&Gauges(registry, "trainyard_job_step", "The last step that the chief reported."),
           [](const Progress& progress) { return std::optional<double>(static_cast<double>(progress.step)); }},
          {&Gauges(registry, "trainyard_job_loss", "The chief's last reported loss."),
           [](const Progress& progress) { return Real(progress.loss); }},
          {&Gauges(registry, "trainyard_job_examples_per_second", "The chief's last reported speed."),
           [](const Progress& progress) { return Real(progress.examples_per_second); }},
          {&Gauges(registry, "trainyard_job_progress_ratio", "Share of the job's steps that are done, 0 to 1."),
           [](const Progress& progress) { return progress.percent ? std::optional<double>(*progress.percent / 100) : std::nullopt; }},
          {&Gauges(registry, "trainyard_job_eta_seconds", "Time left at the present speed."),
           [](const Progress& progress) { return Real(progress.eta_seconds); }},
          {&Gauges(registry, "trainyard_job_stragglers", "Workers that are slow beside the others."),
           [](const Progress& progress) { return std::optional<double>(static_cast<double>(progress.stragglers.size())); }},
      } {}

void JobMetrics::Wrote(const std::string& key, const TrainingJob& job, const TrainingJobStatus& before, const TrainingJobStatus& status) {
  if (status.IsTrue(kCreated) && !before.IsTrue(kCreated)) created_.Increment();
  if (status.IsTrue(kSucceeded) && !before.IsTrue(kSucceeded)) succeeded_.Increment();
  if (status.IsTrue(kFailed) && !before.IsTrue(kFailed)) failed_.Increment();
  restarts_.Increment(std::max(0, status.restarts - before.restarts));
  disruptions_.Increment(std::max(0, status.disruptions - before.disruptions));
  const bool undisturbed = status.restarts == 0 && status.disruptions == 0 && status.Find(kSuspended) == nullptr;
  if (status.running_time && !before.running_time && undisturbed) {
    time_to_running_.Observe(absl::ToDoubleSeconds(*status.running_time - job.meta.creation_time));
  }
  Seen(key, job, status);
}

void JobMetrics::Seen(const std::string& key, const TrainingJob& job, const TrainingJobStatus& status) {
  MutexLock lock(mutex_);
  Entry& entry = jobs_[key];
  const std::string stalled = StallOf(status);
  Move(phases_, "phase", PhaseLabel(entry.phase), PhaseLabel(status.phase));
  Move(stalled_, "reason", entry.stalled, stalled);
  entry.phase = status.phase;
  entry.stalled = stalled;
  if (status.Finished() || !status.progress) {
    Hide(entry);
  } else {
    Show(key, job, status);
  }
}

void JobMetrics::Move(prometheus::Family<prometheus::Gauge>& family, const char* label, const std::string& from, const std::string& to) {
  if (from == to) return;
  if (!from.empty()) family.Add({{label, from}}).Decrement();
  if (!to.empty()) family.Add({{label, to}}).Increment();
}

void JobMetrics::Show(const std::string& key, const TrainingJob& job, const TrainingJobStatus& status) {
  Entry& entry = jobs_[key];
  if (entry.progress.empty()) {
    if (progress_jobs_ == max_progress_jobs_) return;
    entry.progress.resize(progress_.size());
    ++progress_jobs_;
  }
  for (size_t i = 0; i < progress_.size(); ++i) {
    const std::optional<double> value = progress_[i].value(*status.progress);
    if (!value) continue;
    prometheus::Gauge*& gauge = entry.progress[i];
    if (gauge == nullptr) gauge = &progress_[i].family->Add({{"namespace", job.meta.name_space}, {"job", job.meta.name}});
    gauge->Set(*value);
  }
}

void JobMetrics::Hide(Entry& entry) {
  if (entry.progress.empty()) return;
  for (size_t i = 0; i < progress_.size(); ++i) {
    if (entry.progress[i] != nullptr) progress_[i].family->Remove(entry.progress[i]);
  }
  entry.progress.clear();
  --progress_jobs_;
}

void JobMetrics::Gone(const std::string& key) {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  Entry& entry = it->second;
  Move(phases_, "phase", PhaseLabel(entry.phase), "");
  Move(stalled_, "reason", entry.stalled, "");
  Hide(entry);
  jobs_.erase(it);
}

}  // namespace trainyard::control
