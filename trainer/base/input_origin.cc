#include "trainer/base/input_origin.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trainyard::engine {

using nlohmann::json;

json OriginJson(const InputOrigin& origin) { return json::array({origin.step, origin.epoch, origin.offset}); }

absl::StatusOr<InputOrigin> ParseOrigin(const json& value) {
  const auto is_count = [](const json& number) { return number.is_number_integer() && number.get<int64_t>() >= 0; };
  if (!value.is_array() || value.size() != 3 || !std::ranges::all_of(value, is_count)) {
    return absl::InvalidArgumentError("the origin of the input is missing or not three whole numbers from 0 on");
  }
  return InputOrigin{.step = value[0].get<int64_t>(), .epoch = value[1].get<int64_t>(), .offset = value[2].get<int64_t>()};
}

}  // namespace trainyard::engine
