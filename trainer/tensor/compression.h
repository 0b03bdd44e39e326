// How gradients, and the values that they become, travel between replicas.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/tensor/dtype.h"
#include "trainer/tensor/parameter_set.h"

namespace trainyard::engine {

// kNone: as float32. kBfloat16: rounded to bfloat16, in half the bytes. What rounding takes off a
// gradient is added to the next one (docs/collectives.md, "Half the bytes").
enum class Compression : uint8_t { kNone, kBfloat16 };

inline constexpr std::array<std::string_view, 2> kCompressionNames = {"none", "bfloat16"};  // [Compression]
constexpr std::string_view CompressionName(Compression compression) { return kCompressionNames[static_cast<size_t>(compression)]; }

// Next values of parameters that are not trainable (moving statistics) are few, and small changes
// of them count: they travel as they are.
inline DType TravelType(const ParameterSpec& spec, Compression compression) {
  return compression == Compression::kBfloat16 && spec.trainable ? DType::kBF16 : DType::kF32;
}

}  // namespace trainyard::engine
