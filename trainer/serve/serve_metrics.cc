#include "trainer/serve/serve_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <sstream>
#include <utility>
#include <vector>

#include "trainer/base/process_usage.h"

namespace trainyard::engine {
namespace {

const prometheus::Histogram::BucketBoundaries kSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10};
const prometheus::Histogram::BucketBoundaries kExamples = {1, 2, 4, 8, 16, 32, 64, 128, 256};

}  // namespace

struct ServeMetrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      prometheus::BuildCounter().Name("trainyard_serve_requests_total").Help("Requests for predictions.").Register(registry);
  prometheus::Family<prometheus::Histogram>& request_seconds =
      prometheus::BuildHistogram().Name("trainyard_serve_request_seconds").Help("Time from a request to its answer.").Register(registry);
  prometheus::Histogram& batch_examples = prometheus::BuildHistogram()
                                              .Name("trainyard_serve_batch_examples")
                                              .Help("Examples in a batch, without those that fill it up.")
                                              .Register(registry)
                                              .Add({}, kExamples);
  prometheus::Histogram& batch_seconds = prometheus::BuildHistogram()
                                             .Name("trainyard_serve_batch_seconds")
                                             .Help("Time of the model for a batch.")
                                             .Register(registry)
                                             .Add({}, kSeconds);
  prometheus::Counter& padding = prometheus::BuildCounter()
                                     .Name("trainyard_serve_padding_examples_total")
                                     .Help("Zeros that filled batches up to a power of two.")
                                     .Register(registry)
                                     .Add({});
};

ServeMetrics::ServeMetrics() : families_(std::make_unique<Families>()) {}
ServeMetrics::~ServeMetrics() = default;

void ServeMetrics::AddRequest(std::string_view protocol, int status, absl::Duration time) {
  const std::string word(protocol);
  families_->requests.Add({{"protocol", word}, {"code", std::to_string(status)}}).Increment();
  families_->request_seconds.Add({{"protocol", word}}, kSeconds).Observe(absl::ToDoubleSeconds(time));
}

void ServeMetrics::AddBatch(const Batcher::BatchSeen& batch) {
  families_->batch_examples.Observe(static_cast<double>(batch.examples));
  families_->batch_seconds.Observe(absl::ToDoubleSeconds(batch.time));
  families_->padding.Increment(static_cast<double>(batch.size - batch.examples));
}

std::string ServeMetrics::Text(const ServeGauges& gauges) const {
  std::vector<prometheus::MetricFamily> families = families_->registry.Collect();
  const auto add = [&](const std::string& name, const std::string& help, prometheus::MetricType type, double value) {
    prometheus::ClientMetric metric;
    (type == prometheus::MetricType::Gauge ? metric.gauge.value : metric.counter.value) = value;
    prometheus::MetricFamily& family = families.emplace_back();
    family.name = name;
    family.help = help;
    family.type = type;
    family.metric.push_back(std::move(metric));
  };
  using prometheus::MetricType;
  add("trainyard_serve_ready", "1: requests are answered.", MetricType::Gauge, gauges.ready ? 1 : 0);
  add("trainyard_serve_model_version", "Training step of the version that answers; -1: none.", MetricType::Gauge,
      static_cast<double>(gauges.version));
  add("trainyard_serve_versions_loaded_total", "Versions that were loaded.", MetricType::Counter, static_cast<double>(gauges.loaded));
  add("trainyard_serve_checkpoints_refused_total", "Checkpoints that could not be used.", MetricType::Counter,
      static_cast<double>(gauges.refused));
  add("trainyard_serve_queued_examples", "Examples that wait for the model.", MetricType::Gauge, static_cast<double>(gauges.queued));
  add("trainyard_serve_sequences", "Sequences that have begun and not ended.", MetricType::Gauge, static_cast<double>(gauges.sequences));
  const ProcessUsage usage = ReadProcessUsage();
  add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", MetricType::Counter, usage.cpu_seconds);
  add("process_resident_memory_bytes", "Resident memory size in bytes.", MetricType::Gauge, static_cast<double>(usage.resident_bytes));
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return text.str();
}

}  // namespace trainyard::engine
