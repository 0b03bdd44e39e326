// Element types of tensors, in memory, in safetensors files and on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::engine {

enum class DType : uint8_t { kF32 = 0, kF64 = 1, kI32 = 2, kI64 = 3, kU8 = 4, kBF16 = 5 };

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

// "F32", "F64", "I32", "I64", "U8", "BF16": the words of the safetensors format.
std::string_view DTypeName(DType dtype);
// InvalidArgument for any other word, and for BF16, which is for the wire alone.
absl::StatusOr<DType> ParseDType(std::string_view name);

}  // namespace trainyard::engine
