// The number that a cell of CSV is.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// The finite number that a cell is: digits with an optional sign, fraction and exponent. `decimal`
// stands before the fraction; with a comma a point is no part of a number, as it may group
// thousands. InvalidArgument says what the cell is.
absl::StatusOr<double> NumberOf(std::string_view cell, char decimal = '.');

// Whether it is an infinite one: inf, -Infinity.
bool IsInfinite(std::string_view cell);

}  // namespace trainyard::engine
