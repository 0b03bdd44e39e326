// The numbers of one record as a file holds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace trainyard::engine {

enum class ElementType : uint8_t { kU8, kI32, kI64, kF32, kF64 };

// "uint8", "int32" …: numpy's and Arrow's names.
std::string_view ElementTypeName(ElementType type);
size_t ElementBytes(ElementType type);

// A view: `count` little-endian numbers, at any alignment.
struct Elements {
  ElementType type = ElementType::kU8;
  const std::byte* data = nullptr;
  int64_t count = 0;

  bool whole_numbers() const { return type != ElementType::kF32 && type != ElementType::kF64; }
};

// out.size() == elements.count.
void ConvertToF32(const Elements& elements, std::span<float> out);
// The only element of whole numbers.
int64_t WholeNumber(const Elements& element);

}  // namespace trainyard::engine
