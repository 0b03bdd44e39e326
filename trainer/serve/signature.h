// The tensors that a model takes and gives, and a request's tensors as its examples.
#pragma once

#include <cstdint>
#include <semaphore>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/picture/fit_image.h"
#include "trainer/predict/predictor.h"
#include "trainer/serve/input_tensor.h"
#include "trainer/serve/served_examples.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// The first extent is the batch, -1.
struct TensorSpec {
  std::string name;
  std::string datatype;  // of the Open Inference Protocol
  std::vector<int64_t> shape;
};

// Immutable; thread-safe. The model must outlive it.
class Signature {
 public:
  explicit Signature(const Predictor& predictor);

  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  const TensorSpec& output() const { return output_; }
  // Names of the classes, by number; empty for a model that gives numbers.
  const std::vector<std::string>& classes() const { return model_.description.classes; }
  // Whether the model takes encoded pictures (PNG, JPEG) in place of numbers.
  bool takes_pictures() const {
    return !takes_columns() && !reads_text() && CheckTakesImages(model_.description.training.model.input_shape).ok();
  }
  // Whether it takes texts, or the ids of their tokens.
  bool reads_text() const { return model_.vocabulary != nullptr; }
  // Whether it takes the columns of a table.
  bool takes_columns() const { return !columns_by_name_.empty(); }

  // The examples in a request. UINT8 are bytes as in training data, other numbers are taken as they
  // are, as `predict` does it. InvalidArgument names the field, what was found and expected: a
  // tensor that is missing or unknown, another datatype or shape, data of another length, a number
  // that is not finite, a picture, cell or text that cannot be read.
  absl::StatusOr<ServedExamples> ExamplesOf(std::span<const InputTensor> tensors) const;

 private:
  static constexpr int kDecodingRequests = 4;  // at a time: a picture takes up to 100 MB while it is decoded

  absl::StatusOr<ServedExamples> FromNumbers(const InputTensor& tensor) const;
  absl::StatusOr<ServedExamples> FromPictures(const InputTensor& tensor) const;
  absl::StatusOr<ServedExamples> FromTexts(const InputTensor& tensor) const;
  absl::StatusOr<ServedExamples> FromTokens(const InputTensor& tensor) const;
  absl::StatusOr<ServedExamples> FromColumns(std::span<const InputTensor* const> tensors) const;

  const TrainedModel& model_;
  const ImageFit fit_;                         // of pictures
  std::vector<FittedColumn> columns_by_name_;  // of a model of CSV rows; else empty
  std::vector<TensorSpec> inputs_;
  TensorSpec output_;
  mutable std::counting_semaphore<> decoding_{kDecodingRequests};
};

}  // namespace trainyard::engine
