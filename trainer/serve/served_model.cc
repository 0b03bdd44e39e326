#include "trainer/serve/served_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {

absl::StatusOr<std::shared_ptr<ServedModel>> ServedModel::Load(const TrainedModelOptions& checkpoint, const BatcherOptions& options,
                                                               const BackendMaker& make_backend, Batcher::Listener listener) {
  TY_ASSIGN_OR_RETURN(TrainedModel model, LoadTrainedModel(checkpoint));
  std::shared_ptr<ServedModel> served(new ServedModel(std::move(model)));
  TY_RETURN_IF_ERROR(served->CheckStateless());
  TY_ASSIGN_OR_RETURN(served->backend_, make_backend());
  TY_ASSIGN_OR_RETURN(served->predictor_, Predictor::Create(served->model_, *served->backend_));
  served->signature_ = std::make_unique<Signature>(*served->predictor_);
  TY_RETURN_IF_ERROR(served->WarmUp(options.most_batch));
  Predictor& predictor = *served->predictor_;
  served->batcher_ = std::make_unique<Batcher>(
      options,
      [&predictor](DType dtype, std::span<const std::byte> bytes, int64_t examples) { return predictor.Predict(dtype, bytes, examples); },
      std::move(listener));
  return served;
}

absl::Status ServedModel::CheckStateless() const {
  const ModelSpec& spec = model_.description.training.model;
  TY_ASSIGN_OR_RETURN(const Graph graph, BuildInferenceGraph(spec, /*batch=*/1));
  if (graph.states().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "checkpoint {}: model '{}' has a layer with stateful: true, which carries state from batch to batch; serve answers each request by "
      "itself; train with stateful: false",
      model_.checkpoint, spec.name));
}

absl::Status ServedModel::WarmUp(int64_t most_batch) {
  const int64_t elements = model_.description.training.model.input_shape.elements();
  const std::vector<std::byte> zeros(static_cast<size_t>(most_batch * elements) * sizeof(float));
  for (int64_t size = 1; size <= most_batch; size *= 2) {
    const auto bytes = std::span(zeros).first(static_cast<size_t>(size * elements) * sizeof(float));
    TY_ASSIGN_OR_RETURN(const std::span<const float> values, predictor_->Predict(DType::kF32, bytes, size));
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
    return absl::FailedPreconditionError(
        fmt::format("checkpoint {}: the model gives numbers that are not finite for zeros: its training has diverged", model_.checkpoint));
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
