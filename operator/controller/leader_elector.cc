#include "operator/controller/leader_elector.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/status_macros.h"
#include "operator/base/timestamp.h"
#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

// client-go's jitter: candidates that started together do not ask together for ever.
constexpr double kJitter = 1.2;

absl::Duration Jittered(absl::Duration period) {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return period * std::uniform_real_distribution<double>(1.0, 1.0 + kJitter)(generator);
}

std::string Text(const Json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int64_t Number(const Json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

Json Child(const Json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_object() ? *it : Json::object();
}

std::string VersionOf(const Json& lease) { return Text(Child(lease, "metadata"), "resourceVersion"); }

}  // namespace

LeaderElector::LeaderElector(Transport& transport, Throttle& throttle, Clock& clock, LeaderElectorOptions options,
                             std::function<void()> started, std::function<void()> lost)
    : transport_(transport),
      throttle_(throttle),
      clock_(clock),
      options_(std::move(options)),
      started_(std::move(started)),
      lost_(std::move(lost)) {}

LeaderElector::~LeaderElector() { Stop(); }

void LeaderElector::Start() {
  Moved(-absl::InfiniteDuration());
  thread_ = std::thread([this] { Run(stop_.get_token()); });
}

void LeaderElector::Stop() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void LeaderElector::Moved(absl::Duration may_write_until) {
  MutexLock lock(mutex_);
  moved_at_ = clock_.Monotonic();
  may_write_until_ = may_write_until;
}

absl::Duration LeaderElector::MayWriteUntil() const {
  MutexLock lock(mutex_);
  return may_write_until_;
}

absl::Status LeaderElector::Health() const {
  MutexLock lock(mutex_);
  const absl::Duration still = clock_.Monotonic() - moved_at_;
  if (still < options_.stuck_after) return absl::OkStatus();
  return absl::InternalError(fmt::format("lease {}/{}: neither asked for nor renewed for {}", options_.ns, options_.name,
                                         absl::FormatDuration(absl::Trunc(still, absl::Seconds(1)))));
}

bool LeaderElector::Acquire(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Moved(-absl::InfiniteDuration());
    const absl::Status status = TryAcquireOrRenew(clock_.Monotonic() + options_.renew_deadline);
    if (status.ok()) return true;
    if (!absl::IsFailedPrecondition(status)) {
      LogWarning("leader election: {}", status.ToString(absl::StatusToStringMode::kWithNoExtraData));
    }
    SleepFor(clock_, Jittered(options_.retry_period), stop);
  }
  return false;
}

absl::Status LeaderElector::Renew(const std::stop_token& stop) {
  // The lease is ours until `observed_at_` + lease_duration; we stop acting at `deadline`.
  absl::Duration deadline = observed_at_ + options_.renew_deadline;
  while (SleepFor(clock_, std::min(options_.retry_period, deadline - clock_.Monotonic()), stop)) {
    absl::Status status = absl::DeadlineExceededError("renew deadline passed");
    if (clock_.Monotonic() < deadline) status = TryAcquireOrRenew(deadline);
    if (status.ok()) deadline = observed_at_ + options_.renew_deadline;
    const bool late = clock_.Monotonic() >= deadline;
    if (late && status.ok()) return absl::DeadlineExceededError("the answer to a renewal came behind the renew deadline");
    if (late || absl::IsFailedPrecondition(status)) return status;
    Moved(deadline);
    if (!status.ok()) LogWarning("leader election: renewal failed: {}", status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
  return absl::OkStatus();
}

void LeaderElector::Run(std::stop_token stop) {
  if (!Acquire(stop)) return;
  LogInfo("leader election: {} leads (lease {}/{})", options_.identity, options_.ns, options_.name);
  Moved(observed_at_ + options_.renew_deadline);
  started_();
  const absl::Status status = Renew(stop);
  Moved(-absl::InfiniteDuration());
  lost_();
  if (stop.stop_requested()) {
    Release();
  } else {
    LogError("leader election: {} no longer leads: {}", options_.identity, status.ToString(absl::StatusToStringMode::kWithNoExtraData));
  }
}

Json LeaderElector::Record(int transitions, absl::Time acquired) const {
  return {{"holderIdentity", options_.identity},
          {"leaseDurationSeconds", std::max<int64_t>(1, absl::ToInt64Seconds(options_.lease_duration))},
          {"acquireTime", FormatMicroTimestamp(acquired)},
          {"renewTime", FormatMicroTimestamp(clock_.Now())},
          {"leaseTransitions", transitions}};
}

Client LeaderElector::ClientUntil(absl::Duration deadline) const {
  ClientOptions options = options_.client;
  options.request_timeout = deadline - clock_.Monotonic();
  return Client(transport_, throttle_, clock_, std::move(options));
}

absl::Status LeaderElector::Write(Json lease, absl::Duration deadline) {
  lease["spec"] = Record(transitions_, acquired_);
  const absl::Duration written_at = clock_.Monotonic();
  TY_ASSIGN_OR_RETURN(const Json written, ClientUntil(deadline).Update(kLeases, lease));
  Observe(written, written_at);
  return absl::OkStatus();
}

absl::Status LeaderElector::TryAcquireOrRenew(absl::Duration deadline) {
  if (HeldByUs()) {
    const absl::Status renewed = Write(*observed_, deadline);
    // Else another wrote it, or deleted it: the lease tells.
    if (!IsConflict(renewed) && !absl::IsNotFound(renewed)) return renewed;
  }
  // Our own lease runs from before the request that wrote it, another's from after the request that
  // showed it: both err on the safe side.
  const absl::Duration asked_at = clock_.Monotonic();
  auto lease = ClientUntil(deadline).Get(kLeases, options_.ns, options_.name);
  if (absl::IsNotFound(lease.status())) {
    acquired_ = clock_.Now();
    transitions_ = 0;
    const Json fresh = {{"apiVersion", kLeases.ApiVersion()},
                        {"kind", kLeases.kind},
                        {"metadata", {{"namespace", options_.ns}, {"name", options_.name}}},
                        {"spec", Record(0, acquired_)}};
    TY_ASSIGN_OR_RETURN(const Json created, ClientUntil(deadline).Create(kLeases, options_.ns, fresh));
    Observe(created, asked_at);
    return absl::OkStatus();
  }
  TY_RETURN_IF_ERROR(lease.status());
  const absl::Duration seen_at = clock_.Monotonic();
  if (observed_ == nullptr || VersionOf(*lease) != VersionOf(*observed_)) Observe(*lease, seen_at);
  const bool expired = observed_holder_.empty() || seen_at >= observed_at_ + observed_duration_;
  if (!HeldByUs() && !expired) {
    return absl::FailedPreconditionError(fmt::format("lease {}/{} is held by {}", options_.ns, options_.name, observed_holder_));
  }
  transitions_ = static_cast<int>(Number(Child(*lease, "spec"), "leaseTransitions"));
  if (!HeldByUs()) {
    ++transitions_;
    acquired_ = clock_.Now();
  }
  return Write(*std::move(lease), deadline);
}

void LeaderElector::Observe(const Json& lease, absl::Duration at) {
  const Json spec = Child(lease, "spec");
  observed_ = std::make_unique<Json>(lease);
  observed_holder_ = Text(spec, "holderIdentity");
  const int64_t seconds = Number(spec, "leaseDurationSeconds");
  observed_duration_ = seconds > 0 ? absl::Seconds(std::min<int64_t>(seconds, 3600)) : options_.lease_duration;
  observed_at_ = at;
}

void LeaderElector::Release() {
  const absl::Duration deadline = clock_.Monotonic() + options_.retry_period;
  auto lease = ClientUntil(deadline).Get(kLeases, options_.ns, options_.name);
  if (!lease.ok() || Text(Child(*lease, "spec"), "holderIdentity") != options_.identity) return;
  (*lease)["spec"]["holderIdentity"] = "";
  (*lease)["spec"]["leaseDurationSeconds"] = 1;
  (*lease)["spec"]["renewTime"] = FormatMicroTimestamp(clock_.Now());
  const auto released = ClientUntil(deadline).Update(kLeases, *lease);
  if (!released.ok())
    LogWarning("leader election: the lease was not released: {}", released.status().ToString(absl::StatusToStringMode::kWithNoExtraData));
}

}  // namespace trainyard::control
