#include "trainer/predict/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/data/memory_dataset.h"
#include "trainer/data/stages/pipeline.h"
#include "trainer/model/build_graph.h"
#include "trainer/tensor/pixel_scale.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kMostExamples = 64;
constexpr int64_t kBatchBytes = 64 << 20;

// The examples as a data set, so that the stages of training and evaluation do here what they do
// there.
std::unique_ptr<Dataset> DatasetOf(const Shape& example_shape, DType dtype, std::span<const std::byte> bytes, int64_t examples) {
  Buffer x(bytes.size());
  if (!bytes.empty()) std::memcpy(x.data(), bytes.data(), bytes.size());
  DatasetInfo info{.name = "the examples", .examples = examples, .files = {}, .example_shape = example_shape, .x_dtype = dtype};
  info.x_scale = dtype == DType::kU8 ? kPixelScale : 1.0F;
  Buffer no_labels(static_cast<size_t>(examples) * SizeOf(info.y_dtype));
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(no_labels));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Create(const TrainedModel& model, Backend& backend) {
  const ModelSpec& spec = model.description.training.model;
  TY_ASSIGN_OR_RETURN(const ExpectedData expected, ExpectedDataOf(spec));
  if (expected.vocabulary > 0) {
    return absl::InvalidArgumentError(
        fmt::format("checkpoint {}: model '{}' reads text; `generate` goes on with a text, `evaluate` gives its perplexity",
                    model.checkpoint, spec.name));
  }
  if (expected.classes > 0 && expected.label_shape.rank() > 0) {
    return absl::InvalidArgumentError(
        fmt::format("checkpoint {}: model '{}' gives each of {} steps a class; `predict` takes models that give "
                    "an example one class or numbers",
                    model.checkpoint, spec.name, expected.label_shape.ToString()));
  }
  std::unique_ptr<Predictor> predictor(new Predictor(model, backend));
  predictor->classes_ = expected.classes;
  predictor->outputs_ = expected.classes > 0 ? expected.classes : expected.target_shape.elements();
  return predictor;
}

int64_t Predictor::batch_size() const {
  const int64_t bytes = model_.description.training.model.input_shape.elements() * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kBatchBytes / std::max<int64_t>(1, bytes), 1, kMostExamples);
}

absl::StatusOr<Executor*> Predictor::ExecutorFor(int64_t examples) {
  std::unique_ptr<Executor>& executor = executors_[examples];
  if (!executor) {
    TY_ASSIGN_OR_RETURN(Graph graph, BuildInferenceGraph(model_.description.training.model, examples));
    TY_ASSIGN_OR_RETURN(executor, Executor::Create(std::move(graph), backend_));
  }
  return executor.get();
}

absl::StatusOr<std::span<const float>> Predictor::Predict(DType dtype, std::span<const std::byte> bytes, int64_t examples) {
  const ModelDescription& description = model_.description;
  const Shape& shape = description.training.model.input_shape;
  TY_CHECK(examples > 0 && static_cast<int64_t>(bytes.size()) == examples * shape.elements() * static_cast<int64_t>(SizeOf(dtype)));
  TY_ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset,
                      WithStages(DatasetOf(shape, dtype, bytes, examples), description.transforms, /*training=*/false, /*seed=*/0));
  std::vector<int64_t> all(static_cast<size_t>(examples));
  std::iota(all.begin(), all.end(), 0);
  Batch batch;
  TY_RETURN_IF_ERROR(dataset->Read(all, batch));

  TY_ASSIGN_OR_RETURN(Executor* const executor, ExecutorFor(examples));
  ParameterSet state = ZeroState(executor->graph());
  const std::array feeds = {Feed{.name = kInputName, .tensor = batch.x}};
  TY_RETURN_IF_ERROR(executor->Run({.training = false}, feeds, model_.parameters, nullptr, nullptr, &state));
  values_.resize(static_cast<size_t>(examples * outputs_));
  TY_ASSIGN_OR_RETURN(const Shape each, OutputShapeOf(description.training.model));
  std::vector<int64_t> extents{examples};
  extents.insert(extents.end(), each.extents().begin(), each.extents().end());
  const std::string_view output = classes_ > 0 ? kProbabilitiesOutput : kPredictionOutput;
  TY_RETURN_IF_ERROR(executor->Fetch(output, {DType::kF32, Shape(extents), values_.data()}));
  return values_;
}

}  // namespace trainyard::engine
