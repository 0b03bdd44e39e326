#include "trainer/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"
#include "trainer/base/process_usage.h"

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

double Percent(const Progress& progress) {
  if (progress.total_steps <= 0) return 0;
  return std::clamp(100.0 * static_cast<double>(progress.step) / static_cast<double>(progress.total_steps), 0.0, 100.0);
}

std::optional<double> EtaSeconds(const Progress& progress) {
  if (!progress.eta || *progress.eta == absl::InfiniteDuration()) return std::nullopt;
  return absl::ToDoubleSeconds(*progress.eta);
}

// Families that carry the replica's labels.
class Families {
 public:
  Families(const std::string& role, int index) : labels_{{"role", role}, {"index", std::to_string(index)}} {}

  void Gauge(const std::string& name, const std::string& help, double value) {
    Family(name, help, MetricType::Gauge).metric.push_back(Metric(MetricType::Gauge, value));
  }
  void Counter(const std::string& name, const std::string& help, double value) {
    Family(name, help, MetricType::Counter).metric.push_back(Metric(MetricType::Counter, value));
  }
  // Under the names that every Prometheus client library gives them.
  void ProcessGauge(const std::string& name, const std::string& help, double value) {
    Family(name, help, MetricType::Gauge, "process_").metric.push_back(Metric(MetricType::Gauge, value));
  }
  void ProcessCounter(const std::string& name, const std::string& help, double value) {
    Family(name, help, MetricType::Counter, "process_").metric.push_back(Metric(MetricType::Counter, value));
  }
  // One more series of the family before, told apart by a label.
  void Labelled(const std::string& name, const std::string& help, MetricType type, const std::string& label,
                const std::vector<std::pair<std::string, double>>& series) {
    MetricFamily& family = Family(name, help, type);
    for (const auto& [which, value] : series) {
      ClientMetric metric = Metric(type, value);
      metric.label.push_back({label, which});
      family.metric.push_back(std::move(metric));
    }
  }
  std::string Text() const {
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families_);
    return out.str();
  }

 private:
  MetricFamily& Family(const std::string& name, const std::string& help, MetricType type,
                       const std::string& prefix = "trainyard_trainer_") {
    MetricFamily& family = families_.emplace_back();
    family.name = prefix + name;
    family.help = help;
    family.type = type;
    return family;
  }
  ClientMetric Metric(MetricType type, double value) const {
    ClientMetric metric;
    metric.label = labels_;
    (type == MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
    return metric;
  }

  const std::vector<ClientMetric::Label> labels_;
  std::vector<MetricFamily> families_;
};

// One series for each GPU that has the value; no family where none has.
template <typename Value>
void AddGpus(Families& families, const Progress& progress, const std::string& name, const std::string& help, Value value) {
  std::vector<std::pair<std::string, double>> series;
  for (const GpuReading& gpu : progress.gpus) {
    if (const std::optional<double> found = value(gpu)) series.emplace_back(std::to_string(gpu.gpu), *found);
  }
  if (!series.empty()) families.Labelled(name, help, MetricType::Gauge, "gpu", series);
}

}  // namespace

std::string ProgressJson(const Progress& progress) {
  ordered_json object = {
      {"step", progress.step}, {"totalSteps", progress.total_steps}, {"epoch", progress.epoch}, {"percent", Percent(progress)}};
  if (progress.loss) object["loss"] = *progress.loss;  // null where it is NaN or infinite: JSON has no such numbers
  ordered_json metrics = ordered_json::object();
  for (const auto& [name, value] : progress.metrics) {
    if (std::isfinite(value)) metrics[name] = value;
  }
  if (progress.perplexity && std::isfinite(*progress.perplexity)) metrics["trainPerplexity"] = *progress.perplexity;
  object["metrics"] = std::move(metrics);
  object["batchesPerSecond"] = progress.batches_per_second;
  object["examplesPerSecond"] = progress.examples_per_second;
  object["unit"] = progress.unit.name;
  object["unitsPerExample"] = progress.unit.per_example;
  if (std::optional<double> eta = EtaSeconds(progress)) object["etaSeconds"] = *eta;
  if (progress.last_checkpoint_step) object["lastCheckpointStep"] = *progress.last_checkpoint_step;
  if (progress.best_checkpoint_step) object["bestCheckpointStep"] = *progress.best_checkpoint_step;
  if (!progress.stopped_early.empty()) object["stoppedEarly"] = progress.stopped_early;
  if (!progress.warning.empty()) object["warning"] = progress.warning;
  if (!progress.waiting.empty()) object["waiting"] = progress.waiting;
  if (!progress.stragglers.empty()) object["stragglers"] = progress.stragglers;
  for (const Evaluation& evaluation : progress.evaluations) {
    object["evaluations"].push_back({{"step", evaluation.step}, {"epoch", evaluation.epoch}, {"metrics", evaluation.metrics}});
  }
  object["updatedTime"] = absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", progress.updated_time, absl::UTCTimeZone());
  return object.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string ProgressMetrics(const Progress& progress, const std::string& role, int index) {
  Families families(role, index);
  families.Gauge("step", "Training steps done.", static_cast<double>(progress.step));
  families.Gauge("steps_planned", "Training steps of the whole job.", static_cast<double>(progress.total_steps));
  families.Gauge("epoch", "The epoch that is being trained.", static_cast<double>(progress.epoch));
  if (progress.loss) families.Gauge("loss", "The smoothed training loss.", *progress.loss);
  if (progress.perplexity) families.Gauge("perplexity", "e to the smoothed training loss.", *progress.perplexity);
  families.Gauge("batches_per_second", "Batches per second, recently.", progress.batches_per_second);
  families.Gauge("examples_per_second", "Examples per second, recently.", progress.examples_per_second);
  if (progress.unit.name != SpeedUnit().name) {
    families.Gauge(progress.unit.name + "_per_second", "Units of the examples (words, characters) per second, recently.",
                   progress.examples_per_second * static_cast<double>(progress.unit.per_example));
  }
  if (std::optional<double> eta = EtaSeconds(progress)) families.Gauge("eta_seconds", "Time left at the present speed.", *eta);
  if (progress.last_checkpoint_step) {
    families.Gauge("last_checkpoint_step", "The step of the newest checkpoint.", static_cast<double>(*progress.last_checkpoint_step));
  }
  if (progress.best_checkpoint_step) {
    families.Gauge("best_checkpoint_step", "The step of the best checkpoint.", static_cast<double>(*progress.best_checkpoint_step));
  }
  if (!progress.metrics.empty()) {
    families.Labelled("metric", "Results of the last evaluation.", MetricType::Gauge, "name",
                      {progress.metrics.begin(), progress.metrics.end()});
  }
  families.Labelled(
      "phase_seconds_total", "Time of the step loop by phase.", MetricType::Counter, "phase",
      {{"input", progress.input_seconds}, {"compute", progress.compute_seconds}, {"communication", progress.communication_seconds}});
  if (!progress.input_stages.empty()) {
    families.Labelled("input_stage_seconds_total", "Time of the input pipeline by stage; batches are prepared while others are computed.",
                      MetricType::Counter, "stage", progress.input_stages);
  }
  if (!progress.worker_step_seconds.empty()) {
    families.Labelled("worker_step_seconds", "Time that a worker takes for a step without waits for others, recently.", MetricType::Gauge,
                      "worker", progress.worker_step_seconds);
    families.Gauge("stragglers", "Workers that are slow beside the others.", static_cast<double>(progress.stragglers.size()));
  }
  if (progress.refused_streams) {
    families.Counter("refused_streams_total",
                     "Streams that the server has refused: without the key, silent, or with records that do not fit.",
                     static_cast<double>(*progress.refused_streams));
  }
  AddGpus(families, progress, "gpu_memory_used_bytes", "Memory in use on a GPU of this replica, by any process.",
          [](const GpuReading& gpu) { return std::optional<double>(static_cast<double>(gpu.memory_used_bytes)); });
  AddGpus(families, progress, "gpu_memory_total_bytes", "Memory of a GPU of this replica.",
          [](const GpuReading& gpu) { return std::optional<double>(static_cast<double>(gpu.memory_total_bytes)); });
  AddGpus(families, progress, "gpu_utilization_ratio", "The share of time in which a kernel ran on a GPU of this replica, recently.",
          [](const GpuReading& gpu) { return gpu.utilization; });
  const ProcessUsage usage = ReadProcessUsage();
  families.ProcessCounter("cpu_seconds_total", "Total user and system CPU time spent in seconds.", usage.cpu_seconds);
  families.ProcessGauge("resident_memory_bytes", "Resident memory size in bytes.", static_cast<double>(usage.resident_bytes));
  families.Gauge("max_resident_bytes", "Peak resident memory size in bytes.", static_cast<double>(usage.peak_resident_bytes));
  return families.Text();
}

}  // namespace trainyard::engine
