// Replicas that ended with success and are needed again. Pure.
//
// A server of our own trainer ends when all workers have said goodbye, and a rank of an all-reduce
// ends after the chief's last word (docs/contract.md, "The end"). A trainer that is lost between
// that and its exit starts again, and would wait for them for ever.
#pragma once

#include <optional>
#include <set>

#include "operator/plan/situation.h"

namespace trainyard::control {

// From a peer's end with 0 to the end of every trainer.
inline constexpr absl::Duration kEnding = absl::Seconds(30);

struct SecondStart {
  std::set<ReplicaId> replicas;       // start again; empty: none has to
  std::set<ReplicaId> needed_by;      // the trainers that have not ended
  std::optional<absl::Time> look_at;  // when that may change by itself
};

// `completed`: replicas that have ended with success.
SecondStart FindSecondStart(const Situation& situation, const std::set<ReplicaId>& completed);

}  // namespace trainyard::control
