// Examples kept in memory once they were read.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"

namespace trainyard::engine {

// `inner`, each of whose examples is read at most once; in their order of first use.
// InvalidArgument when all of them would take more than `max_bytes`.
absl::StatusOr<std::unique_ptr<Dataset>> CachedInMemory(std::unique_ptr<Dataset> inner, uint64_t max_bytes = uint64_t{64} << 30);

}  // namespace trainyard::engine
