#include "trainer/serve/signature.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include "trainer/base/status_macros.h"
#include "trainer/data/csv/fit_columns.h"
#include "trainer/model/build_graph.h"
#include "trainer/picture/decode_image.h"
#include "trainer/predict/example_reader.h"
#include "trainer/predict/text_examples.h"
#include "trainer/serve/quoted.h"
#include "trainer/serve/tensor_data.h"

namespace trainyard::engine {
namespace {

std::vector<int64_t> BatchOf(const Shape& shape) {
  std::vector<int64_t> extents{-1};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return extents;
}

std::string ShapeText(std::span<const int64_t> extents) { return fmt::format("[{}]", fmt::join(extents, ", ")); }

constexpr double kMostExact = 0x1p53;                 // whole numbers below it are exact
constexpr int64_t kMostPixels = 2 * kMaxImagePixels;  // of a request: small files may hold large pictures

// One of the requests that may decode pictures at the same time. Each ends with its pixels, so that
// the wait is short.
class DecodingTurn {
 public:
  explicit DecodingTurn(std::counting_semaphore<>& turns) : turns_(turns) { turns_.acquire(); }
  ~DecodingTurn() { turns_.release(); }
  DecodingTurn(const DecodingTurn&) = delete;
  DecodingTurn& operator=(const DecodingTurn&) = delete;

 private:
  std::counting_semaphore<>& turns_;
};

// A tensor of one value for each example: [n] or [n, 1].
absl::StatusOr<int64_t> ColumnLength(const InputTensor& tensor) {
  const auto& shape = tensor.shape;
  TY_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(tensor));
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[1] != 1) || elements == 0) {
    return FieldError(tensor, "shape", fmt::format("found {}, expected one value for each example: [n] or [n, 1]", ShapeText(shape)));
  }
  return elements;
}

// A number of JSON is a float64 here, which lacks digits of larger whole numbers. It would be taken
// for another category.
absl::Status CheckDigits(const InputTensor& tensor) {
  const auto* const numbers = std::get_if<std::vector<double>>(&tensor.data);
  if (numbers == nullptr) return absl::OkStatus();
  for (size_t i = 0; i < numbers->size(); ++i) {
    if (std::isnan((*numbers)[i]) || std::abs((*numbers)[i]) < kMostExact) continue;
    return FieldError(tensor, "data",
                      fmt::format("found a number of more than 53 bits at element {}, expected a category as a text in quotes", i));
  }
  return absl::OkStatus();
}

}  // namespace

Signature::Signature(const Predictor& predictor)
    : model_(predictor.model()),
      fit_(model_.description.training.data.format == DataConfig::Format::kImages ? model_.description.training.data.images.fit
                                                                                  : ImageFit::kExact) {
  const ModelSpec& spec = model_.description.training.model;
  if (const auto& fitted = model_.description.training.data.fitted) {
    for (const FittedColumn& column : *fitted) {
      columns_by_name_.push_back(column);
      columns_by_name_.back().column.number = -1;
      inputs_.push_back({.name = column.column.name, .datatype = column.type == ColumnType::kNumber ? "FP64" : "BYTES", .shape = {-1, 1}});
    }
  } else if (reads_text()) {
    inputs_.push_back({.name = std::string(kInputName), .datatype = "BYTES", .shape = {-1}});
  } else {
    inputs_.push_back({.name = std::string(kInputName), .datatype = "FP32", .shape = BatchOf(spec.input_shape)});
  }
  const std::string_view output = predictor.classes() > 0 ? kProbabilitiesOutput : kPredictionOutput;
  output_ = {.name = std::string(output), .datatype = "FP32", .shape = BatchOf(predictor.output_shape())};
}

absl::StatusOr<ServedExamples> Signature::ExamplesOf(std::span<const InputTensor> tensors) const {
  std::vector<const InputTensor*> found(inputs_.size());
  for (const InputTensor& tensor : tensors) {
    const auto input = std::ranges::find_if(inputs_, [&](const TensorSpec& spec) { return spec.name == tensor.name; });
    if (input == inputs_.end() && !(tensor.name.empty() && inputs_.size() == 1)) {
      std::vector<std::string_view> names;
      for (const TensorSpec& spec : inputs_) names.push_back(spec.name);
      return FieldError(
          tensor, "name",
          fmt::format("found {}, expected {}{}", InQuotes(tensor.name), names.size() > 1 ? "one of " : "", fmt::join(names, ", ")));
    }
    const InputTensor*& place = found[input == inputs_.end() ? 0 : static_cast<size_t>(input - inputs_.begin())];
    if (place != nullptr) return FieldError(tensor, "name", fmt::format("found {} twice, expected it once", InQuotes(tensor.name)));
    place = &tensor;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] != nullptr) continue;
    return absl::InvalidArgumentError(fmt::format("inputs: the input \"{}\" is missing, expected {} of shape {}", inputs_[i].name,
                                                  inputs_[i].datatype, ShapeText(inputs_[i].shape)));
  }
  if (takes_columns()) return FromColumns(found);
  const bool texts =
      found[0]->datatype == "BYTES" || (found[0]->datatype.empty() && std::holds_alternative<std::vector<std::string>>(found[0]->data));
  if (reads_text()) return texts ? FromTexts(*found[0]) : FromTokens(*found[0]);
  return texts && takes_pictures() ? FromPictures(*found[0]) : FromNumbers(*found[0]);
}

absl::StatusOr<ServedExamples> Signature::FromNumbers(const InputTensor& tensor) const {
  const Shape& wanted = model_.description.training.model.input_shape;
  TY_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(tensor));
  const std::span<const int64_t> extents = tensor.shape;
  if (extents.empty() || extents[0] == 0 || !IsOneExample(Shape(extents.subspan(1)), wanted)) {
    return FieldError(
        tensor, "shape",
        fmt::format("found {}, expected {}, with the number of examples in front", ShapeText(extents), ShapeText(inputs_[0].shape)));
  }
  TY_ASSIGN_OR_RETURN(ServedExamples examples, NumbersOf(tensor, elements));
  examples.count = extents[0];
  return examples;
}

absl::StatusOr<ServedExamples> Signature::FromPictures(const InputTensor& tensor) const {
  TY_ASSIGN_OR_RETURN(const int64_t count, ColumnLength(tensor));
  TY_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(tensor, count));
  ServedExamples examples{.dtype = DType::kU8, .count = count, .bytes = {}, .steps = {}};
  const DecodingTurn turn(decoding_);
  int64_t pixels_left = kMostPixels;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto in_picture = [&](const absl::Status& error) {
      return FieldError(tensor, "data", fmt::format("picture {}: found one that cannot be used: {}", i, std::string(error.message())));
    };
    const absl::StatusOr<Image> image = DecodeImage(texts[i]);
    if (!image.ok()) return in_picture(image.status());
    pixels_left -= int64_t{image->height} * image->width;
    if (pixels_left < 0) return FieldError(tensor, "data", fmt::format("found more than {} pixels in all pictures", kMostPixels));
    const absl::StatusOr<std::vector<uint8_t>> pixels = FitImage(*image, model_.description.training.model.input_shape, fit_);
    if (!pixels.ok()) return in_picture(pixels.status());
    const auto* const bytes = reinterpret_cast<const std::byte*>(pixels->data());
    examples.bytes.insert(examples.bytes.end(), bytes, bytes + pixels->size());
  }
  return examples;
}

absl::StatusOr<ServedExamples> Signature::FromTexts(const InputTensor& tensor) const {
  if (std::holds_alternative<std::vector<double>>(tensor.data)) return FieldError(tensor, "data", "found numbers, expected texts");
  TY_ASSIGN_OR_RETURN(const int64_t count, ColumnLength(tensor));
  TY_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TextsOf(tensor, count));
  ServedExamples examples{.dtype = DType::kI32, .count = count, .bytes = {}, .steps = {}};
  for (size_t i = 0; i < texts.size(); ++i) {
    const absl::StatusOr<std::vector<int32_t>> tokens = TokensOfText(*model_.vocabulary, texts[i], fmt::format("text {}", i));
    if (!tokens.ok()) return FieldError(tensor, "data", std::string(tokens.status().message()));
    const std::span<const std::byte> bytes = std::as_bytes(std::span(*tokens));
    examples.bytes.insert(examples.bytes.end(), bytes.begin(), bytes.end());
    examples.steps.push_back(static_cast<int64_t>(tokens->size()));
  }
  return examples;
}

absl::StatusOr<ServedExamples> Signature::FromTokens(const InputTensor& tensor) const {
  if (!tensor.datatype.empty() && tensor.datatype != "INT32" && tensor.datatype != "INT64") {
    return FieldError(tensor, "datatype",
                      fmt::format("found {}, expected BYTES for texts, INT32 or INT64 for token ids", InQuotes(tensor.datatype)));
  }
  TY_ASSIGN_OR_RETURN(const int64_t elements, ElementsOf(tensor));
  const std::vector<int64_t>& shape = tensor.shape;
  if (shape.size() != 2 || elements == 0 || shape[1] > kMostTextTokens) {
    return FieldError(tensor, "shape",
                      fmt::format("found {}, expected a list of texts [-1], or of token ids [-1, tokens], 1 to {} of each text",
                                  ShapeText(shape), kMostTextTokens));
  }
  TY_ASSIGN_OR_RETURN(const ServedExamples numbers, NumbersOf(tensor, elements));
  const std::span<const float> ids(reinterpret_cast<const float*>(numbers.bytes.data()), static_cast<size_t>(elements));
  std::vector<int32_t> tokens;
  for (const float id : ids) {
    if (id < 0 || id >= static_cast<float>(model_.vocabulary->size()) || id != std::floor(id)) {
      return FieldError(tensor, "data",
                        fmt::format("found {}, expected token ids: whole numbers from 0 to {}", id, model_.vocabulary->size() - 1));
    }
    tokens.push_back(static_cast<int32_t>(id));
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(tokens));
  return ServedExamples{.dtype = DType::kI32,
                        .count = shape[0],
                        .bytes = {bytes.begin(), bytes.end()},
                        .steps = std::vector<int64_t>(static_cast<size_t>(shape[0]), shape[1])};
}

absl::StatusOr<ServedExamples> Signature::FromColumns(std::span<const InputTensor* const> tensors) const {
  std::vector<std::vector<std::string>> cells;
  std::vector<std::string> header;
  ServedExamples examples;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const InputTensor* const tensor = tensors[i];
    TY_ASSIGN_OR_RETURN(const int64_t count, ColumnLength(*tensor));
    if (!cells.empty() && count != examples.count) {
      return FieldError(*tensor, "shape", fmt::format("found {} values, expected {} as in the columns before", count, examples.count));
    }
    examples.count = count;
    if (columns_by_name_[i].type == ColumnType::kCategory) TY_RETURN_IF_ERROR(CheckDigits(*tensor));
    TY_ASSIGN_OR_RETURN(cells.emplace_back(), TextsOf(*tensor, count));
    header.push_back(inputs_[i].name);
  }
  TY_ASSIGN_OR_RETURN(const RowEncoder encoder, RowEncoder::Create(columns_by_name_, header, header.size(), "inputs"));
  const auto width = static_cast<size_t>(WidthOf(columns_by_name_));
  examples.bytes.resize(static_cast<size_t>(examples.count) * width * sizeof(float));
  const std::span<float> floats(reinterpret_cast<float*>(examples.bytes.data()), static_cast<size_t>(examples.count) * width);
  for (size_t row = 0; row < static_cast<size_t>(examples.count); ++row) {
    const absl::Status encoded =
        encoder.Encode([&](size_t column) { return std::string_view(cells[column][row]); }, floats.subspan(row * width, width));
    if (!encoded.ok()) return WithContext(encoded, fmt::format("inputs: example {}", row));
  }
  return examples;
}

}  // namespace trainyard::engine
