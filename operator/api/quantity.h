// Quantities of Kubernetes ("500m", "1.5", "2Gi", "1e3"), read and written exactly.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/numeric/int128.h"

namespace trainyard::control {

// In thousandths of the unit, rounded up, as the API server does beyond them. Nothing for text that
// is no quantity, for a negative one, and for more than 10^18 units.
std::optional<absl::uint128> ParseQuantity(std::string_view text);

// "4", "1500m", "6Gi": a number of bytes in the largest binary unit that divides it. The text reads
// back as the same quantity.
std::string FormatQuantity(absl::uint128 thousandths);

}  // namespace trainyard::control
