// An optimizer in words: what workers and servers compare.
#pragma once

#include "trainer/base/job_settings.h"
#include "trainer/optim/optimizer_config.h"

namespace trainyard::engine {

// Every number of it, and of its schedule. Not the rule of staleness, which is the strategy's.
JobSettings OptimizerSettings(const OptimizerConfig& optimizer);

}  // namespace trainyard::engine
