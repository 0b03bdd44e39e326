// Where the input of a training goes on: what workers must tell each other beside the step.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Step `step` begins at example `offset` of epoch `epoch`. Other numbers of workers or batch sizes
// make other steps of an epoch. So a training that goes on with others cannot tell the place by its
// step alone. With the default steps are those since the start.
struct InputOrigin {
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t offset = 0;
  friend bool operator==(const InputOrigin&, const InputOrigin&) = default;
};

// [step, epoch, offset]
nlohmann::json OriginJson(const InputOrigin& origin);
// InvalidArgument: it is not three numbers from 0 on.
absl::StatusOr<InputOrigin> ParseOrigin(const nlohmann::json& value);

}  // namespace trainyard::engine
