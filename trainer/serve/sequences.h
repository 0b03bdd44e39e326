// The sequences that clients have begun: what a stateful model carries for each from request to
// request.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"
#include "trainer/serve/batcher.h"
#include "trainer/serve/sequence_request.h"

namespace trainyard::engine {

struct SequenceOptions {
  int64_t most = 1024;                       // that live at a time
  absl::Duration idle = absl::Seconds(300);  // without a request, then they end
};

// Thread-safe. A sequence belongs to the version of the model that it began with.
class Sequences {
 public:
  using Submit = absl::FunctionRef<absl::Status(std::shared_ptr<CarriedRow> carried)>;

  explicit Sequences(const SequenceOptions& options) : options_(options) {}

  // Calls `submit` with what the request goes on from. Where that fails, all is as before.
  // `version` points to the model's version: another one may have the same number. `now` is a time
  // of RealClock().Now(). FailedPrecondition: no such sequence lives, or it began with another
  // version. ResourceExhausted: too many live.
  absl::Status Go(const SequenceRequest& request, const std::shared_ptr<const int64_t>& version, absl::Time now, Submit submit);

  // Those that live.
  int64_t live(absl::Time now) const;

 private:
  struct Sequence {
    std::shared_ptr<CarriedRow> carried;
    std::shared_ptr<const int64_t> version;
    absl::Time last;  // request
  };

  // Nobody asks it any more. A request of it that is not answered yet holds `carried`.
  bool IsOver(const Sequence& sequence, absl::Time now) const {
    return sequence.last + options_.idle <= now && sequence.carried.use_count() == 1;
  }
  void ForgetOld(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SequenceOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, Sequence> live_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
