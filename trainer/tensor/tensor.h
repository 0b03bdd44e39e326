// A typed, shaped, row-major view of memory owned elsewhere. No arithmetic: that is what ops/ and
// backend/ are for.
#pragma once

#include <cstddef>
#include <span>

#include "trainer/base/check.h"
#include "trainer/tensor/dtype.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

// Copied freely; valid as long as the memory is. C order, no strides.
struct Tensor {
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;

  size_t bytes() const { return static_cast<size_t>(shape.elements()) * SizeOf(dtype); }
  // The elements as T, which must be the tensor's own type.
  template <typename T>
  std::span<T> values() const {
    TY_CHECK(DTypeOf<std::remove_const_t<T>>::value == dtype);
    return {static_cast<T*>(data), static_cast<size_t>(shape.elements())};
  }
};

}  // namespace trainyard::engine
