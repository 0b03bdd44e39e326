// Start values of parameters. A value depends on the seed, the parameter's name and the element's place alone: not on the order of the
// layers, on who computes it, or on other parameters.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "trainer/model/model_spec.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// Fills `values`, a tensor of `shape` called `name`. With fan_in = product of all extents but the last, fan_out = that product with the
// last extent in place of the one before it (dense [in, out]: in, out; convolution HWIO: H*W*I, H*W*O), as in Keras:
//   glorotUniform  uniform in ±sqrt(6 / (fan_in + fan_out))                                            Glorot, Bengio 2010 ("Xavier")
//   glorotNormal   normal cut off at two deviations, standard deviation sqrt(2 / (fan_in + fan_out)) after the cut
//   heUniform      uniform in ±sqrt(6 / fan_in)                                                        He et al. 2015 ("Kaiming")
//   uniform        uniform in ±0.05
//   orthogonal     rows (of the matrix of all extents but the last x the last; columns where those are fewer) that are orthonormal: normal
//                  numbers by Gram and Schmidt                                                         Saxe, McClelland, Ganguli 2013
//   heNormal       normal cut off at two deviations, standard deviation sqrt(2 / fan_in) after the cut
void Initialize(Initializer initializer, uint64_t seed, std::string_view name, const Shape& shape, std::span<float> values);

// Every parameter of `spec` by its layer's initializers. `parameters` must hold the spec's parameters (ParameterSpecsOf).
void InitializeParameters(const ModelSpec& spec, uint64_t seed, ParameterSet& parameters);

}  // namespace trainyard::engine
