// Names for people of the parts of a placement (placement.h).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// By part: "conv1/kernel", or "dense1/kernel[2]" for one of several parts of a tensor. Empty
// without servers.
std::vector<std::string> PartNames(std::span<const ParameterSpec> specs, int servers);

}  // namespace trainyard::engine
