// Recurrent layers as ONNX has them: W [directions, G units, inputs], R [directions, G units,
// units], B [directions, 2 G units], the input's bias before the state's. Gates are in the order i,
// o, f, c (LSTM) and z, r, h (GRU). Ours are as in Keras: kernel [inputs, G units], recurrent
// kernel [units, G units], gates i, f, c, o and z, r, h; bias [G units], of a GRU [2, 3 units].
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "trainer/graph/cell.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// The operator: "LSTM".
std::string_view OnnxCell(Cell cell);

// A kernel of `shape` as one direction of W or R: [G units, shape[0]].
std::vector<float> OnnxGates(Cell cell, const Shape& shape, std::span<const float> kernel);
// What OnnxGates undoes.
std::vector<float> GatesOfOnnx(Cell cell, const Shape& shape, std::span<const float> gates);
// A bias of `shape` as one direction of B.
std::vector<float> OnnxBias(Cell cell, const Shape& shape, std::span<const float> bias);
// What OnnxBias undoes; but for a GRU the input's and the state's bias are added.
std::vector<float> BiasOfOnnx(Cell cell, const Shape& shape, std::span<const float> both);

}  // namespace trainyard::engine
