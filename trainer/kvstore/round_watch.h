// How long a round of sync mode may wait for the workers that have not pushed. A worker that is at
// work on something else (it evaluates, it writes a checkpoint) shows activity with its heartbeats,
// and the round waits for it. The round does not wait for a worker that is lost, or alive without
// getting anywhere.
#pragma once

#include <span>

#include "absl/time/time.h"
#include "trainer/kvstore/part_store.h"

namespace trainyard::engine {

// `active_at`, by worker: when it last showed activity (infinite past: never). True when the round
// waits for a worker that has done nothing for `patience`, counted from the round's first push.
// Pure.
bool IsOverdue(const OpenRound& round, std::span<const absl::Time> active_at, absl::Duration patience, absl::Time now);

}  // namespace trainyard::engine
