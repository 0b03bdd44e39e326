#include "operator/controller/controller.h"

#include <algorithm>
#include <exception>

#include "operator/base/log.h"
#include "operator/kube/errors.h"

namespace trainyard::control {

Controller::Controller(WorkQueue& queue, Reconciler& reconciler, Clock& clock, ControllerMetrics& metrics, ControllerOptions options)
    : queue_(queue), reconciler_(reconciler), clock_(clock), metrics_(metrics), options_(options) {}

Controller::~Controller() { Join(); }

void Controller::Join() {
  stopping_ = true;
  queue_.ShutDown();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Controller::Start() {
  for (int i = 0; i < std::max(1, options_.workers); ++i) threads_.emplace_back([this] { Work(); });
}

bool Controller::Stop(absl::Duration timeout) {
  stopping_ = true;
  return queue_.ShutDownAndDrain(timeout);
}

void Controller::Work() {
  while (const auto item = queue_.Get()) {
    metrics_.Waited(item->waited);
    metrics_.QueueDepth(queue_.Depth());
    if (!stopping_) Process(item->key);
    queue_.Done(item->key);
  }
}

void Controller::Process(const std::string& key) {
  const absl::Duration began = clock_.Monotonic();
  absl::StatusOr<ReconcileResult> result = absl::UnknownError("");
  try {
    result = reconciler_.Reconcile(key);
  } catch (const std::exception& exception) {
    result = absl::InternalError(exception.what());
  }
  metrics_.Reconciled(clock_.Monotonic() - began, result.ok());
  if (result.ok()) {
    queue_.Forget(key);
    if (result->requeue_after.has_value()) queue_.AddAfter(key, *result->requeue_after);
    return;
  }
  if (absl::IsCancelled(result.status())) return;  // we are stopping
  // A stale read heals itself with the next watch event: worth a retry, not a warning.
  const auto level = IsConflict(result.status()) || absl::IsAlreadyExists(result.status()) ? LogLevel::kInfo : LogLevel::kWarning;
  const int failures = queue_.Failures(key) + 1;
  Log(level, "{}: {} (failure {} in a row; trying again)", key, result.status().ToString(absl::StatusToStringMode::kWithNoExtraData),
      failures);
  if (const auto wait = RetryAfter(result.status())) {
    queue_.AddRateLimitedAfter(key, *wait);
  } else {
    queue_.AddRateLimited(key);
  }
}

}  // namespace trainyard::control
