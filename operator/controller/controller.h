// Controller: worker threads between a WorkQueue and a Reconciler, and the one place that decides
// about retries.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/controller/metrics.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/workqueue.h"

namespace trainyard::control {

struct ControllerOptions {
  int workers = 4;
};

// The retry switch:
// - success → forget the key's backoff, and look again when asked to;
// - error → the key's backoff, or the server's Retry-After if that is longer;
// - an exception of a library is an error like any other.
class Controller {
 public:
  Controller(WorkQueue& queue, Reconciler& reconciler, Clock& clock, ControllerMetrics& metrics, ControllerOptions options = {});
  ~Controller();

  void Start();
  // Starts no further key, waits for those under way. False when they took longer than `timeout`;
  // the rest waits for Join.
  bool Stop(absl::Duration timeout);
  // Waits for those that took longer.
  void Join();

 private:
  void Work();
  void Process(const std::string& key);

  WorkQueue& queue_;
  Reconciler& reconciler_;
  Clock& clock_;
  ControllerMetrics& metrics_;
  const ControllerOptions options_;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trainyard::control
