#include "trainer/predict/predict_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "trainer/base/status_macros.h"
#include "trainer/predict/csv_examples.h"
#include "trainer/predict/example_reader.h"
#include "trainer/predict/folder_files.h"
#include "trainer/predict/json_examples.h"
#include "trainer/predict/open_examples.h"
#include "trainer/predict/text_examples.h"

namespace trainyard::engine {
namespace {

// "FILE: what is wrong", where the error does not name the file as "FILE:3: …" and
// "cannot open FILE: …" do.
absl::Status InFile(const std::string& file, const absl::Status& error) {
  const std::string message(error.message());
  const bool begins = message.starts_with(file + ":") || message.starts_with(file + " ");
  return begins || message.find(" " + file + ":") != std::string::npos ? error : WithContext(error, file);
}

// A model that was trained on pictures gets others in the same way.
ImageFit FitOf(const DataConfig& data, bool resize) {
  if (data.format == DataConfig::Format::kImages) return data.images.fit;
  return resize ? ImageFit::kStretch : ImageFit::kExact;
}

absl::StatusOr<std::unique_ptr<ExampleReader>> OpenFile(const std::string& file, const ExampleForm& form) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) TY_RETURN_IF_ERROR(PicturesIn(file).status());
  return OpenExamples(file, form);
}

absl::StatusOr<std::unique_ptr<ExampleReader>> ReadStandardInput(std::istream& lines, const ExampleForm& form) {
  if (form.columns != nullptr) return ReadCsvExamples(lines, *form.columns);
  if (form.vocabulary != nullptr) return ReadTexts(lines, *form.vocabulary, /*json=*/false);
  return ReadJsonLines(lines, form);
}

// Examples until there are enough of them, or of another type, and the failures between them.
class Pending {
 public:
  Pending(Predictor& predictor, const PredictListener& listener) : predictor_(predictor), listener_(listener) {}

  absl::Status Add(const std::string& file, const Example& example) {
    if (examples_ > 0 && example.dtype != dtype_) TY_RETURN_IF_ERROR(Flush());
    dtype_ = example.dtype;
    if (dtype_ == DType::kI32) {
      std::vector<int32_t>& tokens = texts_.emplace_back(example.bytes.size() / sizeof(int32_t));
      std::memcpy(tokens.data(), example.bytes.data(), example.bytes.size());
    } else {
      bytes_.insert(bytes_.end(), example.bytes.begin(), example.bytes.end());
    }
    ++examples_;
    return Keep({.prediction = {.file = file, .index = example.index}, .error = absl::OkStatus()});
  }

  absl::Status AddFailure(const std::string& file, absl::Status error) {
    return Keep({.prediction = {.file = file}, .error = std::move(error)});
  }

  absl::Status Flush() {
    std::span<const float> values;
    if (examples_ > 0) {
      TY_ASSIGN_OR_RETURN(values, Predicted());
    }
    const auto each = static_cast<size_t>(predictor_.outputs());
    for (Place& place : places_) {
      if (!place.error.ok()) {
        listener_.failed(place.prediction.file, place.error);
        continue;
      }
      place.prediction.values = values.first(each);
      values = values.subspan(each);
      Tell(place.prediction);
    }
    examples_ = 0;
    places_.clear();
    bytes_.clear();
    texts_.clear();
    return absl::OkStatus();
  }

 private:
  struct Place {
    Prediction prediction;
    absl::Status error;  // in place of the prediction
  };

  // At most a batch of both, whatever the number of failures.
  absl::Status Keep(Place place) {
    places_.push_back(std::move(place));
    const bool alone = examples_ == 0;  // no example before it waits
    return alone || static_cast<int64_t>(places_.size()) >= predictor_.batch_size() ? Flush() : absl::OkStatus();
  }
  absl::StatusOr<std::span<const float>> Predicted() {
    if (dtype_ != DType::kI32) return predictor_.Predict(dtype_, bytes_, examples_);
    TY_ASSIGN_OR_RETURN(of_texts_, PredictTexts(predictor_, texts_));
    return of_texts_;
  }
  void Tell(const Prediction& prediction) {
    if (std::ranges::all_of(prediction.values, [](float value) { return std::isfinite(value); })) return listener_.predicted(prediction);
    const std::string example = prediction.index < 0 ? "" : fmt::format("example {}: ", prediction.index);
    listener_.failed(prediction.file, absl::InvalidArgumentError(
                                          fmt::format("{}: {}the prediction is not finite: the example has very large numbers, or the "
                                                      "checkpoint's training has diverged",
                                                      prediction.file, example)));
  }

  Predictor& predictor_;
  const PredictListener& listener_;
  DType dtype_ = DType::kF32;
  std::vector<std::byte> bytes_;
  std::vector<std::vector<int32_t>> texts_;  // of kI32, in place of bytes_
  std::vector<float> of_texts_;
  int64_t examples_ = 0;  // of places_
  std::vector<Place> places_;
};

}  // namespace

absl::Status PredictFiles(Predictor& predictor, const PredictFilesOptions& options, std::istream& lines, const PredictListener& listener) {
  const TrainingConfig& training = predictor.model().description.training;
  const ExampleForm form{.shape = training.model.input_shape,
                         .fit = FitOf(training.data, options.resize),
                         .columns = training.data.fitted ? &training.data : nullptr,
                         .vocabulary = predictor.model().vocabulary.get()};
  Pending pending(predictor, listener);
  Example example;
  for (const std::string& file : options.files) {
    absl::StatusOr<std::unique_ptr<ExampleReader>> reader = file == "-" ? ReadStandardInput(lines, form) : OpenFile(file, form);
    if (!reader.ok()) {
      TY_RETURN_IF_ERROR(pending.AddFailure(file, InFile(file, reader.status())));
      continue;
    }
    while (true) {
      const absl::StatusOr<bool> found = (*reader)->Next(example);
      if (!found.ok()) {
        TY_RETURN_IF_ERROR(pending.AddFailure(file, InFile(file, found.status())));
      } else if (*found) {
        TY_RETURN_IF_ERROR(pending.Add(file, example));
      } else {
        break;
      }
    }
  }
  return pending.Flush();
}

}  // namespace trainyard::engine
