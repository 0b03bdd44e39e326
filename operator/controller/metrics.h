// The machinery's metrics, in the registry that main owns. All are named trainyard_*.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/time/time.h"

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
class Registry;
template <typename T>
class Family;
}  // namespace prometheus

namespace trainyard::control {

// Thread-safe after construction. The registry must outlive it.
class ControllerMetrics {
 public:
  explicit ControllerMetrics(prometheus::Registry& registry);

  void Reconciled(absl::Duration took, bool ok);
  void Waited(absl::Duration in_queue);
  void QueueDepth(size_t depth);
  void ApiRequest(std::string_view verb, int code, absl::Duration took);
  void Leading(bool leading);
  void EventSent();
  void EventDropped();
  void Unreadable(std::string_view resource);

 private:
  prometheus::Family<prometheus::Counter>& reconciles_;
  prometheus::Counter& reconciled_;
  prometheus::Counter& failed_;
  prometheus::Histogram& latency_;
  prometheus::Histogram& waited_;
  prometheus::Gauge& depth_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Histogram& request_latency_;
  prometheus::Gauge& leading_;
  prometheus::Counter& events_sent_;
  prometheus::Counter& events_dropped_;
  prometheus::Family<prometheus::Counter>& unreadable_;
};

}  // namespace trainyard::control
