// LeaderElector: at most one of several operators acts, by a Lease (coordination.k8s.io/v1) with
// client-go's meaning of its fields.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/kube/client.h"

namespace trainyard::control {

struct LeaderElectorOptions {
  std::string ns{};
  std::string name = "trainyard-operator";
  std::string identity{};                             // unique per process: pod name and a random part
  absl::Duration lease_duration = absl::Seconds(15);  // others wait so long after the last renewal that they saw
  absl::Duration renew_deadline = absl::Seconds(10);  // a leader that could not renew for so long gives up
  absl::Duration retry_period = absl::Seconds(2);
  absl::Duration stuck_after = absl::Minutes(1);  // an elector that has not moved for so long is not well
  ClientOptions client;
};

// The age of a lease is measured on the own monotonic clock, from when a change was seen. The
// timestamps in the lease are never used for it. So clocks of other machines, and jumps of the own
// clock, do not matter.
class LeaderElector {
 public:
  // The throttle should be its own, so that a busy or paused one does not cost the lease.
  // `started` and `lost` are called from the elector's thread, once each, `started` first. After
  // `lost` nothing may be written any more: it is called when the renew deadline passed, before
  // another process can hold the lease. An elector that lost its lease does not lead again.
  LeaderElector(Transport& transport, Throttle& throttle, Clock& clock, LeaderElectorOptions options, std::function<void()> started,
                std::function<void()> lost);
  ~LeaderElector();

  void Start();
  // Releases the lease if held (`lost` is called first) and returns when the thread has ended.
  void Stop();
  // Until when (Clock::Monotonic()) the lease allows to write; the infinite past while it is not
  // held. Thread-safe.
  absl::Duration MayWriteUntil() const;
  // OK, or why the elector is not well. Thread-safe.
  absl::Status Health() const;

 private:
  void Run(std::stop_token stop);
  bool Acquire(const std::stop_token& stop);
  // Renews until the lease is lost (why) or `stop`.
  absl::Status Renew(const std::stop_token& stop);
  void Moved(absl::Duration may_write_until);
  // No request of it lasts beyond `deadline`. A leader renews by one request, as client-go's does.
  absl::Status TryAcquireOrRenew(absl::Duration deadline);
  // Writes our record into `lease`. It has the version that was read, so a process that writes at
  // the same time gets a conflict.
  absl::Status Write(nlohmann::json lease, absl::Duration deadline);
  Client ClientUntil(absl::Duration deadline) const;
  // `at`: from when on its age counts.
  void Observe(const nlohmann::json& lease, absl::Duration at);
  void Release();
  nlohmann::json Record(int transitions, absl::Time acquired) const;
  bool HeldByUs() const { return observed_holder_ == options_.identity; }

  Transport& transport_;
  Throttle& throttle_;
  Clock& clock_;
  const LeaderElectorOptions options_;
  const std::function<void()> started_;
  const std::function<void()> lost_;
  std::unique_ptr<nlohmann::json> observed_;  // the lease as it last changed; null: none was seen
  std::string observed_holder_;
  absl::Duration observed_duration_;
  absl::Duration observed_at_;
  int transitions_ = 0;
  absl::Time acquired_;
  mutable Mutex mutex_;
  absl::Duration may_write_until_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  absl::Duration moved_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();  // before the start
  std::thread thread_;
  std::stop_source stop_;
};

}  // namespace trainyard::control
