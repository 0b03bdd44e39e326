// What the tests of each algorithm share.
#pragma once

#include "trainer/collectives/schedule.h"

namespace trainyard::engine {

inline constexpr AllReduceAlgorithm kBothAlgorithms[] = {AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling};

}  // namespace trainyard::engine
