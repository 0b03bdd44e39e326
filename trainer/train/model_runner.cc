#include "trainer/train/model_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "trainer/base/status_macros.h"
#include "trainer/model/build_graph.h"

namespace trainyard::engine {
namespace {

using BuildGraph = absl::StatusOr<Graph> (*)(const ModelSpec&, int64_t);

absl::StatusOr<Executor*> ExecutorFor(const ModelSpec& spec, Backend& backend, int64_t examples, BuildGraph build,
                                      const ExecutorOptions& options, std::map<int64_t, std::unique_ptr<Executor>>& executors) {
  std::unique_ptr<Executor>& executor = executors[examples];
  if (!executor) {
    TY_ASSIGN_OR_RETURN(Graph graph, build(spec, examples));
    TY_ASSIGN_OR_RETURN(executor, Executor::Create(std::move(graph), backend, options));
  }
  return executor.get();
}

std::array<Feed, 2> FeedsOf(const ModelSpec& spec, const Batch& batch) {
  const bool classes = spec.loss == Loss::kSoftmaxCrossEntropy;
  return {Feed{.name = kInputName, .tensor = batch.x}, Feed{.name = classes ? kLabelsFeed : kTargetFeed, .tensor = batch.y}};
}

absl::Status UnequalBatches(int64_t state_examples, int64_t examples) {
  return absl::InvalidArgumentError(fmt::format(
      "a batch has {} examples, the one before had {}. Layers with stateful: true carry state from batch to batch, so all batches "
      "must be of one size",
      examples, state_examples));
}

}  // namespace

ParameterSet ZeroState(const Graph& graph) { return ParameterSet({graph.states().begin(), graph.states().end()}); }

absl::StatusOr<ExpectedData> ExpectedDataOf(const ModelSpec& spec) {
  ExpectedData expected{.example_shape = spec.input_shape, .vocabulary = spec.vocabulary};
  TY_ASSIGN_OR_RETURN(expected.classes, ClassCountOf(spec));
  TY_ASSIGN_OR_RETURN(const Shape output, OutputShapeOf(spec));
  if (expected.classes == 0) {
    expected.target_shape = output;
  } else {
    expected.label_shape = Shape(output.extents().first(output.extents().size() - 1));
  }
  return expected;
}

absl::StatusOr<Executor*> ModelRunner::TrainingExecutor(int64_t examples) {
  return ExecutorFor(spec_, backend_, examples, BuildTrainingGraph, training_options_, training_);
}

absl::StatusOr<Executor*> ModelRunner::EvaluationExecutor(int64_t examples) {
  return ExecutorFor(spec_, backend_, examples, BuildEvaluationGraph, {}, evaluation_);
}

absl::StatusOr<ParameterSet*> ModelRunner::TrainingState(int64_t examples) {
  TY_ASSIGN_OR_RETURN(const Executor* const executor, TrainingExecutor(examples));
  if (executor->graph().states().empty()) return nullptr;
  if (state_examples_ == 0) {
    state_ = ZeroState(executor->graph());
    state_examples_ = examples;
  }
  if (state_examples_ != examples) return UnequalBatches(state_examples_, examples);
  return &state_;
}

void ModelRunner::ResetState() {
  for (int i = 0; i < state_.size(); ++i) std::ranges::fill(state_.values(i), 0.0F);
}

absl::StatusOr<double> ModelRunner::Train(const StepContext& step, const Batch& batch, const ParameterSet& parameters,
                                          ParameterSet& gradients, GradientSink* sink) {
  TY_ASSIGN_OR_RETURN(Executor* const executor, TrainingExecutor(batch.examples));
  const std::array<Feed, 2> feeds = FeedsOf(spec_, batch);
  TY_ASSIGN_OR_RETURN(ParameterSet* const state, TrainingState(batch.examples));
  TY_RETURN_IF_ERROR(executor->Run(step, feeds, parameters, &gradients, sink, state));
  return executor->Scalar(kLossOutput);
}

absl::StatusOr<StepOutcome> ModelRunner::TrainOnDevice(const StepContext& step, const Batch& batch) {
  TY_ASSIGN_OR_RETURN(Executor* const executor, TrainingExecutor(batch.examples));
  TY_ASSIGN_OR_RETURN(ParameterSet* const state, TrainingState(batch.examples));
  return executor->Train(step, FeedsOf(spec_, batch), state);
}

absl::StatusOr<Sampler> ModelRunner::EvaluationSampler(const DatasetInfo& data, int64_t batch_size) {
  return Sampler::Create({.examples = data.examples,
                          .stream_steps = data.stream_steps,
                          .batch_size = batch_size,
                          .order = {.files = {}, .shuffle = {.kind = ShuffleConfig::Kind::kNone}}});
}

absl::StatusOr<int64_t> ModelRunner::EvaluatedExamples(const DatasetInfo& data, int64_t batch_size) {
  TY_ASSIGN_OR_RETURN(const Sampler sampler, EvaluationSampler(data, batch_size));
  return sampler.At(sampler.StepsPerEpoch() - 1).global_end;
}

absl::StatusOr<ModelScore> ModelRunner::Evaluate(const Dataset& dataset, int64_t batch_size, const ParameterSet& parameters,
                                                 const BatchSeen& seen) {
  TY_ASSIGN_OR_RETURN(Sampler sampler, EvaluationSampler(dataset.info(), batch_size));
  const bool classes = spec_.loss == Loss::kSoftmaxCrossEntropy;
  Batch batch;
  std::vector<int64_t> indices;
  double loss = 0;
  double correct = 0;
  int64_t examples = 0;
  double labels = 0;
  ParameterSet state;
  int64_t state_examples = 0;
  for (int64_t step = 0; step < sampler.StepsPerEpoch(); ++step) {
    sampler.Indices(sampler.At(step), indices);
    TY_RETURN_IF_ERROR(dataset.Read(indices, batch));
    TY_ASSIGN_OR_RETURN(Executor* const executor, EvaluationExecutor(batch.examples));
    const std::array<Feed, 2> feeds = FeedsOf(spec_, batch);
    if (state_examples == 0) {
      state = ZeroState(executor->graph());
      state_examples = batch.examples;
    }
    if (state.size() > 0 && state_examples != batch.examples) return UnequalBatches(state_examples, batch.examples);
    TY_RETURN_IF_ERROR(executor->Run({.training = false}, feeds, parameters, nullptr, nullptr, &state));
    TY_ASSIGN_OR_RETURN(const double batch_loss, executor->Scalar(kLossOutput));
    const auto batch_labels = static_cast<double>(classes ? batch.y.shape.elements() : batch.examples);
    loss += batch_loss * batch_labels;
    labels += batch_labels;
    examples += batch.examples;
    if (classes) {
      TY_ASSIGN_OR_RETURN(const double batch_correct, executor->Scalar(kCorrectOutput));
      correct += batch_correct;
    }
    if (seen) TY_RETURN_IF_ERROR(seen(batch, *executor));
  }
  const double count = std::max(1.0, labels);
  ModelScore score{.loss = loss / count, .accuracy = correct / count, .examples = examples, .labels = static_cast<int64_t>(labels)};
  if (dataset.info().stream_steps > 0) score.perplexity = std::exp(score.loss);
  return score;
}

}  // namespace trainyard::engine
