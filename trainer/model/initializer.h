// The start values of a model's parameters: layers say how each starts (layers/start_value.h).
#pragma once

#include <cstdint>

#include "trainer/model/model_spec.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// `parameters` must hold the spec's parameters (ParameterSpecsOf).
void InitializeParameters(const ModelSpec& spec, uint64_t seed, ParameterSet& parameters);

}  // namespace trainyard::engine
