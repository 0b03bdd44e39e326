// Start values of parameters. A value depends on the seed, the parameter's name and the element's
// place alone. The order of the layers, the process and other parameters do not matter.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// How a parameter starts; fan-in and fan-out come from its shape.
enum class Initializer : uint8_t { kZeros, kOnes, kGlorotUniform, kGlorotNormal, kHeUniform, kHeNormal, kUniform, kOrthogonal };

// The start of a parameter, given by the layer that adds it.
struct StartValue {
  Initializer initializer = Initializer::kZeros;
  // Then elements [ones_begin, ones_end) become 1: an LSTM's forget gate.
  int64_t ones_begin = 0;
  int64_t ones_end = 0;
};

// Fills `values`, a tensor of `shape` called `name`. The rules are those of Keras. fan_in = product
// of all extents but the last. fan_out = that product with the last extent in place of the last but
// one. (dense [in, out]: in, out; convolution HWIO: H*W*I, H*W*O)
//   glorotUniform  uniform in ±sqrt(6 / (fan_in + fan_out))                                            Glorot, Bengio 2010 ("Xavier")
//   glorotNormal   normal cut off at two deviations, standard deviation sqrt(2 / (fan_in + fan_out)) after the cut
//   heUniform      uniform in ±sqrt(6 / fan_in)                                                        He et al. 2015 ("Kaiming")
//   uniform        uniform in ±0.05
//   orthogonal     rows (of the matrix of all extents but the last x the last; columns where those are fewer) that are orthonormal: normal
//                  numbers by Gram and Schmidt                                                         Saxe, McClelland, Ganguli 2013
//   heNormal       normal cut off at two deviations, standard deviation sqrt(2 / fan_in) after the cut
void Initialize(const StartValue& start, uint64_t seed, std::string_view name, const Shape& shape, std::span<float> values);

}  // namespace trainyard::engine
