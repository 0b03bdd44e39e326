#include "trainer/data/formats/elements.h"

#include <bit>
#include <cstring>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they stand in the file");

template <typename T>
T Load(const std::byte* data, size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Convert(const std::byte* data, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(Load<T>(data, i));
}

}  // namespace

std::string_view ElementTypeName(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return "uint8";
    case ElementType::kI32:
      return "int32";
    case ElementType::kI64:
      return "int64";
    case ElementType::kF32:
      return "float32";
    case ElementType::kF64:
      break;
  }
  return "float64";
}

size_t ElementBytes(ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return 1;
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kI64:
    case ElementType::kF64:
      break;
  }
  return 8;
}

void ConvertToF32(const Elements& elements, std::span<float> out) {
  TY_CHECK(static_cast<int64_t>(out.size()) == elements.count);
  switch (elements.type) {
    case ElementType::kU8:
      return Convert<uint8_t>(elements.data, out);
    case ElementType::kI32:
      return Convert<int32_t>(elements.data, out);
    case ElementType::kI64:
      return Convert<int64_t>(elements.data, out);
    case ElementType::kF32:
      if (!out.empty()) std::memcpy(out.data(), elements.data, out.size_bytes());
      return;
    case ElementType::kF64:
      return Convert<double>(elements.data, out);
  }
}

int64_t WholeNumber(const Elements& element) {
  TY_CHECK(element.count == 1 && element.whole_numbers());
  switch (element.type) {
    case ElementType::kU8:
      return Load<uint8_t>(element.data, 0);
    case ElementType::kI32:
      return Load<int32_t>(element.data, 0);
    default:
      return Load<int64_t>(element.data, 0);
  }
}

}  // namespace trainyard::engine
