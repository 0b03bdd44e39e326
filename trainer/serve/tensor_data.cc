#include "trainer/serve/tensor_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "trainer/base/status_macros.h"
#include "trainer/data/formats/elements.h"
#include "trainer/serve/quoted.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 32;  // more than any body has

struct NumberType {
  std::string_view name;
  ElementType element;
  double min;
  double max;
};

constexpr double kNoBound = std::numeric_limits<double>::infinity();
constexpr std::array kNumberTypes = {
    NumberType{"FP32", ElementType::kF32, -kNoBound, kNoBound}, NumberType{"FP64", ElementType::kF64, -kNoBound, kNoBound},
    NumberType{"INT32", ElementType::kI32, -2147483648.0, 2147483647.0}, NumberType{"INT64", ElementType::kI64, -0x1p63, 0x1p63},
    NumberType{"UINT8", ElementType::kU8, 0, 255}};

// `others`: what the tensor may be beside numbers.
absl::StatusOr<NumberType> NumberTypeOf(const InputTensor& tensor, std::string_view others = "") {
  if (tensor.datatype.empty()) return kNumberTypes[0];
  for (const NumberType& type : kNumberTypes) {
    if (type.name == tensor.datatype) return type;
  }
  return FieldError(tensor, "datatype",
                    fmt::format("found {}, expected one of FP32, FP64, INT32, INT64, UINT8{}", InQuotes(tensor.datatype), others));
}

absl::Status WrongLength(const InputTensor& tensor, std::string_view found, int64_t elements) {
  return FieldError(tensor, "data", fmt::format("found {}, expected {} as the shape says", found, elements));
}

absl::Status CheckFinite(const InputTensor& tensor, std::span<const float> numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::isfinite(numbers[i])) continue;
    return FieldError(tensor, "data", fmt::format("found a number that is not finite, or too large, at element {}", i));
  }
  return absl::OkStatus();
}

std::span<float> FloatsIn(ServedExamples& examples, size_t count) {
  examples.dtype = DType::kF32;
  examples.bytes.resize(count * sizeof(float));
  return {reinterpret_cast<float*>(examples.bytes.data()), count};
}

absl::StatusOr<ServedExamples> FromRaw(const InputTensor& tensor, const std::string& raw, const NumberType& type, int64_t elements) {
  const size_t wanted = static_cast<size_t>(elements) * ElementBytes(type.element);
  if (raw.size() != wanted) {
    return FieldError(tensor, "data", fmt::format("found {} bytes, expected {}: {} of {}", raw.size(), wanted, elements, type.name));
  }
  ServedExamples examples;
  const auto* const bytes = reinterpret_cast<const std::byte*>(raw.data());
  if (type.element == ElementType::kU8) {
    examples.dtype = DType::kU8;
    examples.bytes.assign(bytes, bytes + raw.size());
    return examples;
  }
  const std::span<float> floats = FloatsIn(examples, static_cast<size_t>(elements));
  ConvertToF32({.type = type.element, .data = bytes, .count = elements}, floats);
  TY_RETURN_IF_ERROR(CheckFinite(tensor, floats));
  return examples;
}

absl::Status CheckNumbers(const InputTensor& tensor, const std::vector<double>& numbers, const NumberType& type, bool nulls = false) {
  const bool whole = type.element != ElementType::kF32 && type.element != ElementType::kF64;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double number = numbers[i];
    if (nulls && std::isnan(number)) continue;
    if (number >= type.min && number <= type.max && (!whole || number == std::floor(number))) continue;
    const std::string found = std::isnan(number) ? "null" : fmt::format("{}", number);
    return FieldError(tensor, "data", fmt::format("found {} at element {}, expected {} numbers", found, i, type.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<ServedExamples> FromJson(const InputTensor& tensor, const std::vector<double>& numbers, const NumberType& type,
                                        int64_t elements) {
  if (static_cast<int64_t>(numbers.size()) != elements) {
    return WrongLength(tensor, fmt::format("{} numbers", numbers.size()), elements);
  }
  TY_RETURN_IF_ERROR(CheckNumbers(tensor, numbers, type));
  ServedExamples examples;
  if (type.element == ElementType::kU8) {
    examples.dtype = DType::kU8;
    examples.bytes.resize(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) examples.bytes[i] = static_cast<std::byte>(numbers[i]);
    return examples;
  }
  const std::span<float> floats = FloatsIn(examples, numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) floats[i] = static_cast<float>(numbers[i]);
  TY_RETURN_IF_ERROR(CheckFinite(tensor, floats));
  return examples;
}

template <typename Number>
std::vector<std::string> TextsOfEach(std::string_view raw) {
  std::vector<std::string> texts;
  for (; !raw.empty(); raw.remove_prefix(sizeof(Number))) {
    Number number;
    raw.copy(reinterpret_cast<char*>(&number), sizeof(number));
    if constexpr (std::is_same_v<Number, float>) {
      texts.push_back(fmt::format("{}", double{number}));
    } else {
      texts.push_back(fmt::format("{}", number));
    }
  }
  return texts;
}

// `raw` has whole elements. A whole number has all its digits: it may be a category.
std::vector<std::string> TextsOfRaw(std::string_view raw, ElementType type) {
  switch (type) {
    case ElementType::kU8:
      return TextsOfEach<uint8_t>(raw);
    case ElementType::kI32:
      return TextsOfEach<int32_t>(raw);
    case ElementType::kI64:
      return TextsOfEach<int64_t>(raw);
    case ElementType::kF32:
      return TextsOfEach<float>(raw);
    default:
      return TextsOfEach<double>(raw);
  }
}

// Whether the data are what the datatype says. Null is a cell of each.
absl::Status CheckCells(const InputTensor& tensor) {
  const auto* const numbers = std::get_if<std::vector<double>>(&tensor.data);
  if (tensor.datatype.empty()) return absl::OkStatus();
  if (tensor.datatype == "BYTES") {
    const bool texts = numbers == nullptr || std::ranges::all_of(*numbers, [](double number) { return std::isnan(number); });
    return texts ? absl::OkStatus() : FieldError(tensor, "data", "found numbers, expected texts, as the datatype says");
  }
  TY_ASSIGN_OR_RETURN(const NumberType type, NumberTypeOf(tensor, ", BYTES"));
  if (numbers != nullptr) return CheckNumbers(tensor, *numbers, type, /*nulls=*/true);
  if (std::holds_alternative<RawElements>(tensor.data)) return absl::OkStatus();
  return FieldError(tensor, "data", fmt::format("found texts, expected {} numbers, as the datatype says", type.name));
}

// Texts of the binary form: each has its length in front, as 32 bits.
std::optional<std::vector<std::string>> SplitTexts(std::string_view raw) {
  std::vector<std::string> texts;
  while (!raw.empty()) {
    uint32_t size = 0;
    if (raw.size() < sizeof(size)) return std::nullopt;
    std::memcpy(&size, raw.data(), sizeof(size));
    raw.remove_prefix(sizeof(size));
    if (raw.size() < size) return std::nullopt;
    texts.emplace_back(raw.substr(0, size));
    raw.remove_prefix(size);
  }
  return texts;
}

}  // namespace

absl::Status FieldError(const InputTensor& tensor, std::string_view name, std::string_view message) {
  // TensorFlow's JSON has no fields below the tensor.
  if (tensor.datatype.empty()) return absl::InvalidArgumentError(fmt::format("{}: {}", tensor.field, message));
  return absl::InvalidArgumentError(fmt::format("{}.{}: {}", tensor.field, name, message));
}

absl::StatusOr<int64_t> ElementsOf(const InputTensor& tensor) {
  if (tensor.shape.size() > Shape::kMaxRank) {
    return FieldError(tensor, "shape", fmt::format("found {} extents, expected at most {}", tensor.shape.size(), int{Shape::kMaxRank}));
  }
  int64_t product = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0) return FieldError(tensor, "shape", fmt::format("found the extent {}, expected 0 or more", extent));
    if (extent > 0 && product > kMostElements / extent) return FieldError(tensor, "shape", "found more elements than a request holds");
    product *= extent;
  }
  return product;
}

absl::StatusOr<ServedExamples> NumbersOf(const InputTensor& tensor, int64_t elements) {
  TY_ASSIGN_OR_RETURN(const NumberType type, NumberTypeOf(tensor));
  if (const auto* const raw = std::get_if<RawElements>(&tensor.data)) return FromRaw(tensor, raw->bytes, type, elements);
  if (const auto* const numbers = std::get_if<std::vector<double>>(&tensor.data)) return FromJson(tensor, *numbers, type, elements);
  return FieldError(tensor, "data", "found texts, expected numbers");
}

absl::StatusOr<std::vector<std::string>> TextsOf(const InputTensor& tensor, int64_t elements) {
  TY_RETURN_IF_ERROR(CheckCells(tensor));
  std::vector<std::string> texts;
  if (const auto* const numbers = std::get_if<std::vector<double>>(&tensor.data)) {
    for (const double number : *numbers) texts.push_back(std::isnan(number) ? "" : fmt::format("{}", number));
  } else if (const auto* const raw = std::get_if<RawElements>(&tensor.data); raw != nullptr && tensor.datatype == "BYTES") {
    std::optional<std::vector<std::string>> split = SplitTexts(raw->bytes);
    if (!split) return FieldError(tensor, "data", "found bytes that end within a text, expected each text behind its length in 4 bytes");
    texts = *std::move(split);
  } else if (raw != nullptr) {
    TY_ASSIGN_OR_RETURN(const NumberType type, NumberTypeOf(tensor));
    const size_t wanted = static_cast<size_t>(elements) * ElementBytes(type.element);
    if (raw->bytes.size() != wanted) return WrongLength(tensor, fmt::format("{} bytes", raw->bytes.size()), elements);
    texts = TextsOfRaw(raw->bytes, type.element);
  } else {
    texts = std::get<std::vector<std::string>>(tensor.data);
  }
  if (static_cast<int64_t>(texts.size()) != elements) return WrongLength(tensor, std::to_string(texts.size()), elements);
  return texts;
}

}  // namespace trainyard::engine
