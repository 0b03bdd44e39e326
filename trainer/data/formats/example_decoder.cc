#include "trainer/data/formats/example_decoder.h"

#include <fmt/format.h>

#include <cstring>

#include "trainer/tensor/pixel_scale.h"

namespace trainyard::engine {
ExampleDecoder::ExampleDecoder(const ExpectedData& expected, ElementType example_type) : expected_(expected), example_type_(example_type) {
  const bool pixels = example_type == ElementType::kU8;
  info_.example_shape = expected.example_shape;
  info_.x_dtype = pixels ? DType::kU8 : DType::kF32;
  info_.x_scale = pixels ? kPixelScale : 1.0F;
  info_.y_dtype = expected.classes > 0 ? DType::kI32 : DType::kF32;
  if (expected.classes == 0) info_.label_shape = expected.target_shape;
  x_bytes_ = static_cast<size_t>(info_.example_shape.elements()) * SizeOf(info_.x_dtype);
  y_bytes_ = static_cast<size_t>(info_.label_shape.elements()) * SizeOf(info_.y_dtype);
}

absl::Status ExampleDecoder::Example(const Elements& found, std::string_view file, int64_t record, std::byte* out) const {
  const int64_t elements = info_.example_shape.elements();
  if (found.count != elements) {
    return absl::InvalidArgumentError(fmt::format("{}: the example of record {} has {} numbers, the model's input is {} ({} numbers)", file,
                                                  record, found.count, info_.example_shape.ToString(), elements));
  }
  if (found.type != example_type_) {
    return absl::InvalidArgumentError(fmt::format("{}: the example of record {} is of {}, those before it are of {}", file, record,
                                                  ElementTypeName(found.type), ElementTypeName(example_type_)));
  }
  if (found.type == ElementType::kU8) {
    std::memcpy(out, found.data, x_bytes_);
  } else {
    ConvertToF32(found, {reinterpret_cast<float*>(out), static_cast<size_t>(elements)});
  }
  return absl::OkStatus();
}

absl::Status ExampleDecoder::Label(const Elements& found, std::string_view file, int64_t record, std::byte* out) const {
  if (expected_.classes == 0) {
    const int64_t elements = info_.label_shape.elements();
    if (found.count != elements) {
      return absl::InvalidArgumentError(fmt::format("{}: the target of record {} has {} numbers, the model's output is {} ({} numbers)",
                                                    file, record, found.count, info_.label_shape.ToString(), elements));
    }
    ConvertToF32(found, {reinterpret_cast<float*>(out), static_cast<size_t>(elements)});
    return absl::OkStatus();
  }
  if (found.count != 1 || !found.whole_numbers()) {
    return absl::InvalidArgumentError(fmt::format("{}: the label of record {} is {} numbers of {}, expected one whole number", file, record,
                                                  found.count, ElementTypeName(found.type)));
  }
  const int64_t label = WholeNumber(found);
  if (label < 0 || label >= expected_.classes) {
    return absl::OutOfRangeError(fmt::format("{}: label {} of record {} is not one of the model's {} classes (0 to {})", file, label,
                                             record, expected_.classes, expected_.classes - 1));
  }
  const auto value = static_cast<int32_t>(label);
  std::memcpy(out, &value, sizeof(value));
  return absl::OkStatus();
}

}  // namespace trainyard::engine
