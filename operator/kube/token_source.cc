#include "operator/kube/token_source.h"

#include <utility>

#include "operator/base/file.h"
#include "operator/base/log.h"
#include "operator/kube/config.h"

namespace trainyard::control {

TokenSource::TokenSource(Clock& clock, std::string token, std::string file)
    : clock_(clock), file_(std::move(file)), token_(std::move(token)) {}

std::string TokenSource::Token() {
  MutexLock lock(mutex_);
  if (file_.empty()) return token_;
  const absl::Duration now = clock_.Monotonic();
  if (now - read_at_ < (refused_ ? absl::Seconds(1) : absl::Minutes(1))) return token_;
  read_at_ = now;
  refused_ = false;
  auto token = ReadFile(file_, kMaxConfigBytes);
  if (token.ok() && !token->empty()) {
    token_ = *std::move(token);
  } else {
    LogWarning("{}; the last token stays in use", token.ok() ? file_ + ": is empty" : std::string(token.status().message()));
  }
  return token_;
}

void TokenSource::Refused() {
  MutexLock lock(mutex_);
  refused_ = true;
}

}  // namespace trainyard::control
