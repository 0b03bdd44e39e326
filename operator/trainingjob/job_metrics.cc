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

std::string PhaseLabel(JobPhase phase) { return std::string(Name(phase)); }

}  // namespace

struct JobMetrics::ProgressGauges {
  prometheus::Gauge& step;
  // Null: not reported, which is not 0.
  prometheus::Gauge* loss = nullptr;
  prometheus::Gauge* examples_per_second = nullptr;
};

JobMetrics::JobMetrics(prometheus::Registry& registry, size_t max_progress_jobs)
    : max_progress_jobs_(max_progress_jobs),
      phases_(Gauges(registry, "trainyard_jobs", "Jobs by phase.")),
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
      step_(Gauges(registry, "trainyard_job_step", "The last step that the chief reported.")),
      loss_(Gauges(registry, "trainyard_job_loss", "The chief's last reported loss.")),
      examples_per_second_(Gauges(registry, "trainyard_job_examples_per_second", "The chief's last reported speed.")) {}

JobMetrics::~JobMetrics() = default;

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
  if (entry.phase != status.phase) {
    if (entry.phase) phases_.Add({{"phase", PhaseLabel(*entry.phase)}}).Decrement();
    if (status.phase) phases_.Add({{"phase", PhaseLabel(*status.phase)}}).Increment();
    entry.phase = status.phase;
  }
  if (status.Finished() || !status.progress) {
    Hide(entry);
  } else {
    Show(key, job, status);
  }
}

void JobMetrics::Show(const std::string& key, const TrainingJob& job, const TrainingJobStatus& status) {
  Entry& entry = jobs_[key];
  const prometheus::Labels labels = {{"namespace", job.meta.name_space}, {"job", job.meta.name}};
  if (entry.progress == nullptr) {
    if (progress_jobs_ == max_progress_jobs_) return;
    entry.progress.reset(new ProgressGauges{step_.Add(labels)});
    ++progress_jobs_;
  }
  const auto show = [&](prometheus::Family<prometheus::Gauge>& family, prometheus::Gauge*& gauge, const std::optional<double>& value) {
    if (!value) return;
    if (gauge == nullptr) gauge = &family.Add(labels);
    gauge->Set(*value);
  };
  entry.progress->step.Set(static_cast<double>(status.progress->step));
  show(loss_, entry.progress->loss, status.progress->loss);
  show(examples_per_second_, entry.progress->examples_per_second, status.progress->examples_per_second);
}

void JobMetrics::Hide(Entry& entry) {
  if (entry.progress == nullptr) return;
  step_.Remove(&entry.progress->step);
  if (entry.progress->loss != nullptr) loss_.Remove(entry.progress->loss);
  if (entry.progress->examples_per_second != nullptr) examples_per_second_.Remove(entry.progress->examples_per_second);
  entry.progress.reset();
  --progress_jobs_;
}

void JobMetrics::Gone(const std::string& key) {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(key);
  if (it == jobs_.end()) return;
  if (it->second.phase) phases_.Add({{"phase", PhaseLabel(*it->second.phase)}}).Decrement();
  Hide(it->second);
  jobs_.erase(it);
}

}  // namespace trainyard::control
