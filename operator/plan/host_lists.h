// A job's host lists beside the ConfigMap that is to hold them, as one look compares them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/api/core.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

// What a look has found out, so that the next look need not hash the same lists again. It says
// nothing of another job, another version of the spec or another version of the ConfigMap.
struct HostListsSeen {
  std::string job_uid;
  int64_t generation = 0;
  std::string hash;            // HostsHash of that spec; empty: not known
  std::string config_version;  // resourceVersion of the ConfigMap that holds the lists …
  int64_t config_epoch = 0;    // … of this epoch; 0: none is known to
  friend bool operator==(const HostListsSeen&, const HostListsSeen&) = default;
};

// For the time of one look: it owns neither `job` nor `config`. `config`: null where there is none.
// A job that goes on after a refused edit follows another spec than its generation's: what was seen
// is not used then, and nothing is found out.
class HostLists {
 public:
  HostLists(const TrainingJob& job, const ConfigMap* config, const std::optional<HostListsSeen>& seen);

  std::string Hash();
  // Whether the ConfigMap holds the lists of this epoch; false without one.
  bool AreHeld(int64_t epoch);
  // What is known now; nothing where no look may use it.
  std::optional<HostListsSeen> seen() const { return usable_ ? std::optional(seen_) : std::nullopt; }

 private:
  const TrainingJob& job_;
  const ConfigMap* const config_;
  const bool usable_;
  HostListsSeen seen_;
};

}  // namespace trainyard::control
