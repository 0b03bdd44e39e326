// Outputs of a trained model for examples without labels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/executor.h"
#include "trainer/predict/token_reader.h"
#include "trainer/predict/trained_model.h"

namespace trainyard::engine {

// What one sequence carries from one call of Predict to the next. Empty: it begins.
using RowState = std::vector<float>;

// Not thread-safe. Model and backend must outlive it.
//
// A model that reads text takes one token as an example. It says what follows the text so far: the
// tokens before are in the row's state. A text begins after a line's end, with the state that the
// training carried in its first row. Other models begin with zeros.
class Predictor {
 public:
  // InvalidArgument: the model reads text that is not loaded (LoadText), or cannot read it token by
  // token, or labels each step of other sequences.
  static absl::StatusOr<std::unique_ptr<Predictor>> Create(const TrainedModel& model, Backend& backend);

  const TrainedModel& model() const { return model_; }
  bool reads_text() const { return spec_.vocabulary > 0; }
  // Of one example; of a model that reads text [1].
  const Shape& example_shape() const { return spec_.input_shape; }
  // Of the output for one example; of a model that reads text [classes].
  const Shape& output_shape() const { return output_shape_; }
  // 0: the model gives numbers, not classes.
  int classes() const { return classes_; }
  // Numbers for each example: probabilities of the classes, or the prediction.
  int64_t outputs() const { return output_shape_.elements(); }
  // Numbers in a state; 0: no layer carries one.
  int64_t state_size() const { return state_size_; }
  // The number of examples that are best predicted at once; it bounds the memory.
  int64_t batch_size() const;

  // `bytes` are `examples` examples of kU8 or kF32, as a file holds them: the training's transforms
  // are applied. Of a model that reads text they are kI32, and below the model's vocabulary. Row i
  // goes on from `states[i]`, which is replaced; rows without one begin, and leave none.
  // [examples][outputs()], valid until the next call; a standardised label in its own unit; not
  // finite where a training has diverged or an example has very large numbers.
  absl::StatusOr<std::span<const float>> Predict(DType dtype, std::span<const std::byte> bytes, int64_t examples,
                                                 std::span<RowState* const> states = {});

  // Of a model that reads text: row i reads `length` tokens, one of kReadLengths, from `tokens`
  // [states.size()][length]. It goes on from `states[i]`, which is replaced. The state has the bits
  // that as many calls of Predict leave, and comes several times as fast: nothing is said of what
  // follows.
  absl::Status Read(std::span<const int32_t> tokens, int64_t length, std::span<RowState* const> states);

 private:
  struct Compiled {
    std::unique_ptr<Executor> executor;
    ParameterSet state;
  };

  Predictor(const TrainedModel& model, Backend& backend) : model_(model), backend_(backend) {}
  absl::Status Begin();
  absl::StatusOr<Compiled*> CompiledFor(int64_t examples);
  absl::StatusOr<int64_t> ExamplesAtATime(int64_t examples);
  // Predictions as the training has its labels.
  std::span<const float> InLabelUnit(std::span<const float> found);
  void Gather(std::span<RowState* const> states, ParameterSet& to) const;
  static void Scatter(const ParameterSet& from, std::span<RowState* const> states);

  const TrainedModel& model_;
  Backend& backend_;
  ModelSpec spec_;  // that runs
  int classes_ = 0;
  Shape output_shape_;
  int64_t state_size_ = 0;
  RowState first_;                        // of a row that begins
  std::map<int64_t, Compiled> compiled_;  // by the number of examples
  std::optional<TokenReader> reader_;     // of a model that reads text
  std::vector<int32_t> tokens_;           // that it reads, with those of rows that fill a batch up
  std::vector<float> values_;
};

}  // namespace trainyard::engine
