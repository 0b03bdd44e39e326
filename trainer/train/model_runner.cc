#include "trainer/train/model_runner.h"

#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

using BuildGraph = absl::StatusOr<Graph> (*)(const ModelSpec&, int64_t);

absl::StatusOr<Executor*> ExecutorFor(const ModelSpec& spec, Backend& backend, int64_t rows, BuildGraph build,
                                      std::map<int64_t, std::unique_ptr<Executor>>& executors) {
  std::unique_ptr<Executor>& executor = executors[rows];
  if (!executor) {
    TY_ASSIGN_OR_RETURN(Graph graph, build(spec, rows));
    TY_ASSIGN_OR_RETURN(executor, Executor::Create(std::move(graph), backend));
  }
  return executor.get();
}

std::array<Feed, 2> FeedsOf(const ModelSpec& spec, const Batch& batch) {
  const bool classes = spec.loss == Loss::kSoftmaxCrossEntropy;
  return {Feed{.name = kInputName, .tensor = batch.x}, Feed{.name = classes ? kLabelsFeed : kTargetFeed, .tensor = batch.y}};
}

}  // namespace

absl::StatusOr<ExpectedData> ExpectedDataOf(const ModelSpec& spec) {
  ExpectedData expected{.example_shape = spec.input_shape, .classes = 0, .target_shape = {}};
  TY_ASSIGN_OR_RETURN(expected.classes, ClassCountOf(spec));
  if (expected.classes == 0) {
    TY_ASSIGN_OR_RETURN(expected.target_shape, OutputShapeOf(spec));
  }
  return expected;
}

absl::StatusOr<Executor*> ModelRunner::TrainingExecutor(int64_t rows) {
  return ExecutorFor(spec_, backend_, rows, BuildTrainingGraph, training_);
}

absl::StatusOr<Executor*> ModelRunner::EvaluationExecutor(int64_t rows) {
  return ExecutorFor(spec_, backend_, rows, BuildEvaluationGraph, evaluation_);
}

absl::StatusOr<double> ModelRunner::Train(const StepContext& step, const Batch& batch, const ParameterSet& parameters,
                                          ParameterSet& gradients, GradientSink* sink) {
  TY_ASSIGN_OR_RETURN(Executor* const executor, TrainingExecutor(batch.rows));
  const std::array<Feed, 2> feeds = FeedsOf(spec_, batch);
  TY_RETURN_IF_ERROR(executor->Run(step, feeds, parameters, &gradients, sink));
  return executor->Scalar(kLossOutput);
}

absl::StatusOr<ModelRunner::Evaluation> ModelRunner::Evaluate(const Dataset& dataset, int64_t batch_size, const ParameterSet& parameters) {
  const int64_t examples = dataset.info().examples;
  const bool classes = spec_.loss == Loss::kSoftmaxCrossEntropy;
  Batch batch;
  std::vector<int64_t> indices;
  double loss = 0;
  double correct = 0;
  for (int64_t begin = 0; begin < examples; begin += batch_size) {
    indices.resize(static_cast<size_t>(std::min(batch_size, examples - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    TY_RETURN_IF_ERROR(dataset.Read(indices, batch));
    TY_ASSIGN_OR_RETURN(Executor* const executor, EvaluationExecutor(batch.rows));
    const std::array<Feed, 2> feeds = FeedsOf(spec_, batch);
    TY_RETURN_IF_ERROR(executor->Run({.training = false}, feeds, parameters, nullptr, nullptr));
    TY_ASSIGN_OR_RETURN(const double batch_loss, executor->Scalar(kLossOutput));
    loss += batch_loss * static_cast<double>(batch.rows);
    if (classes) {
      TY_ASSIGN_OR_RETURN(const double batch_correct, executor->Scalar(kCorrectOutput));
      correct += batch_correct;
    }
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, examples));
  return Evaluation{.loss = loss / count, .accuracy = correct / count, .examples = examples};
}

std::map<std::string, double> MetricsOf(const ModelSpec& spec, const ModelRunner::Evaluation& evaluation) {
  std::map<std::string, double> metrics = {{"loss", evaluation.loss}};
  if (spec.loss == Loss::kSoftmaxCrossEntropy) metrics["accuracy"] = evaluation.accuracy;
  return metrics;
}

}  // namespace trainyard::engine
