#include "trainer/profile/span_log.h"

#include <algorithm>

namespace trainyard::engine {

void SpanLog::Reserve(size_t spans) {
  absl::MutexLock lock(&mutex_);
  spans_.reserve(std::min(spans, kMostSpans));
}

void SpanLog::Add(const Span& span) {
  absl::MutexLock lock(&mutex_);
  if (spans_.size() < spans_.capacity()) {
    spans_.push_back(span);
  } else {
    ++dropped_;
  }
}

std::vector<Span> SpanLog::spans() const {
  absl::MutexLock lock(&mutex_);
  return spans_;
}

size_t SpanLog::size() const {
  absl::MutexLock lock(&mutex_);
  return spans_.size();
}

int64_t SpanLog::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

}  // namespace trainyard::engine
