#include "operator/controller/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace trainyard::control {
namespace {

prometheus::Histogram& Seconds(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
      {}, prometheus::Histogram::BucketBoundaries{0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60});
}

prometheus::Counter& Count(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
}

prometheus::Gauge& Value(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
}

}  // namespace

ControllerMetrics::ControllerMetrics(prometheus::Registry& registry)
    : reconciles_(prometheus::BuildCounter().Name("trainyard_reconciles_total").Help("Reconciles by result.").Register(registry)),
      reconciled_(reconciles_.Add({{"result", "success"}})),
      failed_(reconciles_.Add({{"result", "error"}})),
      latency_(Seconds(registry, "trainyard_reconcile_seconds", "Time of one reconcile.")),
      waited_(Seconds(registry, "trainyard_queue_wait_seconds", "Time from when a key was due until a worker took it.")),
      depth_(Value(registry, "trainyard_queue_depth", "Keys that wait for a worker.")),
      requests_(prometheus::BuildCounter()
                    .Name("trainyard_api_requests_total")
                    .Help("Requests to the API server by verb and code; code 0: no answer.")
                    .Register(registry)),
      request_latency_(Seconds(registry, "trainyard_api_request_seconds", "Time of requests to the API server, watches left out.")),
      leading_(Value(registry, "trainyard_leading", "1 while this process holds the lease.")),
      events_sent_(Count(registry, "trainyard_events_sent_total", "Events that the API server has taken.")),
      events_dropped_(Count(registry, "trainyard_events_dropped_total", "Events that were given up.")),
      unreadable_(prometheus::BuildCounter()
                      .Name("trainyard_unreadable_objects_total")
                      .Help("Objects in lists and watches that could not be read, by resource.")
                      .Register(registry)) {}

void ControllerMetrics::Reconciled(absl::Duration took, bool ok) {
  (ok ? reconciled_ : failed_).Increment();
  latency_.Observe(absl::ToDoubleSeconds(took));
}

void ControllerMetrics::Waited(absl::Duration in_queue) { waited_.Observe(absl::ToDoubleSeconds(in_queue)); }

void ControllerMetrics::QueueDepth(size_t depth) { depth_.Set(static_cast<double>(depth)); }

void ControllerMetrics::ApiRequest(std::string_view verb, int code, absl::Duration took) {
  requests_.Add({{"verb", std::string(verb)}, {"code", std::to_string(code)}}).Increment();
  if (verb != "watch") request_latency_.Observe(absl::ToDoubleSeconds(took));
}

void ControllerMetrics::Leading(bool leading) { leading_.Set(leading ? 1 : 0); }
void ControllerMetrics::EventSent() { events_sent_.Increment(); }
void ControllerMetrics::EventDropped() { events_dropped_.Increment(); }
void ControllerMetrics::Unreadable(std::string_view resource) { unreadable_.Add({{"resource", std::string(resource)}}).Increment(); }

}  // namespace trainyard::control
