// A text of the workers that wait and those that they wait for, in sync mode.
#pragma once

#include <optional>
#include <string>

#include "trainer/base/wait_notice.h"
#include "trainer/kvstore/server.h"

namespace trainyard::engine {

// "worker-0 waits for worker-2 at step 31, 12 s"; "" where no round is open, or not for kShownWait.
// `own_chief`: rank 0 is a chief replica, and the workers follow it.
std::string WaitText(const std::optional<KvOpenRound>& round, bool own_chief);

}  // namespace trainyard::engine
