// TokenSource: the bearer token, read again from its file as the kubelet rotates it.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. Reads the file at most once a minute, or when the server refused the token. While
// the file cannot be read, the last token stays in use, with a warning.
class TokenSource {
 public:
  // `file` empty: always `token`.
  TokenSource(Clock& clock, std::string token, std::string file);

  std::string Token();
  // The server answered 401: read the file at the next call, but not more often than once a second.
  void Refused();

 private:
  Clock& clock_;
  const std::string file_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  absl::Duration read_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::control
