// Whether values are numbers: neither NaN nor infinite.
#pragma once

#include <span>
#include <string>

#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// One pass at the speed of memory.
bool AllFinite(std::span<const float> values);

// The name of the first tensor with a value that is not finite; "": there is none.
std::string FirstNotFinite(const ParameterSet& set);

}  // namespace trainyard::engine
