// What `data convert` says of a job that trains on its stores.
#pragma once

#include <string>
#include <vector>

#include "trainer/data/data_config.h"

namespace trainyard::engine {

// The line `data:` of such a job, and what the stores of `data` lack. `classes` are the names by
// number; those that a store has anyway, "0", "1" …, are left out.
std::string StoreJobText(const std::string& dir, const DataConfig& data, const std::vector<std::string>& classes);

}  // namespace trainyard::engine
