#include "trainer/serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/predict/load_text.h"

namespace trainyard::engine {

absl::StatusOr<std::shared_ptr<ServedModel>> ServedModel::Load(const TrainedModelOptions& checkpoint, const BatcherOptions& options,
                                                               const BackendMaker& make_backend, Batcher::Listener listener) {
  TY_ASSIGN_OR_RETURN(TrainedModel model, LoadTrainedModel(checkpoint));
  TY_RETURN_IF_ERROR(LoadText(model));
  std::shared_ptr<ServedModel> served(new ServedModel(std::move(model)));
  TY_ASSIGN_OR_RETURN(served->backend_, make_backend());
  TY_ASSIGN_OR_RETURN(served->predictor_, Predictor::Create(served->model_, *served->backend_));
  served->signature_ = std::make_unique<Signature>(*served->predictor_);
  TY_RETURN_IF_ERROR(served->WarmUp(options.most_batch));
  Predictor& predictor = *served->predictor_;
  served->batcher_ = std::make_unique<Batcher>(
      options,
      [&predictor](DType dtype, std::span<const std::byte> bytes, int64_t examples, std::span<RowState* const> states) {
        return predictor.Predict(dtype, bytes, examples, states);
      },
      [&predictor](std::span<const std::byte> bytes, int64_t length, std::span<RowState* const> states) {
        return predictor.Read({reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)}, length, states);
      },
      std::move(listener));
  return served;
}

// Compiles all that reads texts.
absl::Status ServedModel::WarmUpReading(int64_t most_batch) {
  std::vector<RowState> states(static_cast<size_t>(most_batch));
  std::vector<RowState*> rows;
  for (RowState& state : states) rows.push_back(&state);
  const std::vector<int32_t> zeros(static_cast<size_t>(most_batch * kReadLengths[0]));
  for (int64_t size = 1; size <= most_batch; size *= 2) {
    for (const int64_t length : kReadLengths) {
      const auto tokens = std::span(zeros).first(static_cast<size_t>(size * length));
      TY_RETURN_IF_ERROR(predictor_->Read(tokens, length, std::span(rows).first(static_cast<size_t>(size))));
    }
  }
  return absl::OkStatus();
}

absl::Status ServedModel::WarmUp(int64_t most_batch) {
  if (predictor_->reads_text()) TY_RETURN_IF_ERROR(WarmUpReading(most_batch));
  const DType dtype = predictor_->reads_text() ? DType::kI32 : DType::kF32;
  const int64_t bytes_each = predictor_->example_shape().elements() * static_cast<int64_t>(SizeOf(dtype));
  const std::vector<std::byte> zeros(static_cast<size_t>(most_batch * bytes_each));
  for (int64_t size = 1; size <= most_batch; size *= 2) {
    TY_ASSIGN_OR_RETURN(const std::span<const float> values,
                        predictor_->Predict(dtype, std::span(zeros).first(static_cast<size_t>(size * bytes_each)), size));
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
    return absl::FailedPreconditionError(
        fmt::format("checkpoint {}: the model gives numbers that are not finite for zeros: its training has diverged", model_.checkpoint));
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
