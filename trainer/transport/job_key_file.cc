#include "trainer/transport/job_key_file.h"

#include <algorithm>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/log.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kReadAgainAfter = absl::Seconds(1);
constexpr int64_t kMostBytes = 4096;

}  // namespace

JobKeyFile::JobKeyFile(const JobKey& key, std::string path, Clock& clock)
    : path_(std::move(path)), clock_(clock), key_(key), read_at_(clock.Now()) {}

JobKey JobKeyFile::Now() {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_.Now();
  if (now >= read_at_ && now < read_at_ + kReadAgainAfter) return key_;
  read_at_ = now;
  const absl::StatusOr<std::string> text = ReadFile(path_, kMostBytes);
  if (!text.ok()) return key_;
  const absl::StatusOr<JobKey> key = JobKey::Parse(*text, path_);
  if (!key.ok() || std::ranges::equal(key->bytes(), key_.bytes())) return key_;
  LogWarning("'{}' holds another key now: new streams are opened with it", path_);
  key_ = *key;
  return key_;
}

}  // namespace trainyard::engine
