#include "trainer/model/build_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

ModelSpec Preset(std::string_view name) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec({{"preset", name}}, "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("test");
  return spec;
}

std::vector<std::string> FeedsOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const NodeId id : graph.inputs()) names.push_back(graph.node(id).name);
  return names;
}

// The graph that runs: as a backend rewrites it, with its backward nodes.
Graph Compiled(const absl::StatusOr<Graph>& graph) {
  EXPECT_TRUE(graph.ok()) << graph.status();
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto executor = Executor::Create(*graph, *backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  return (*executor)->graph();
}

TEST(BuildGraphTest, TrainingHasAGradientForEveryParameter) {
  const Graph graph = Compiled(BuildTrainingGraph(Preset("lenet5"), 8));
  EXPECT_EQ(graph.results().size(), graph.parameters().size());
  EXPECT_THAT(FeedsOf(graph), UnorderedElementsAre("input", "labels"));
  EXPECT_THAT(graph.outputs(), UnorderedElementsAre(Key("loss")));
}

TEST(BuildGraphTest, TrainingLeavesNextValuesForMovingStatisticsAndEvaluationDoesNot) {
  const ModelSpec spec = Preset("resnet56v2");
  const Graph training = Compiled(BuildTrainingGraph(spec, 2));
  EXPECT_EQ(training.results().size(), training.parameters().size());
  for (const ParameterResult& result : training.results()) {
    const bool gradient = result.kind == ParameterResult::Kind::kGradient;
    EXPECT_EQ(training.parameters()[result.key].trainable, gradient) << training.parameters()[result.key].name;
  }
  EXPECT_THAT(training.outputs(), UnorderedElementsAre(Key("loss")));
  const auto evaluation = BuildEvaluationGraph(spec, 2);
  ASSERT_TRUE(evaluation.ok());
  EXPECT_THAT(evaluation->results(), IsEmpty());
  EXPECT_FALSE(evaluation->loss().valid());
}

TEST(BuildGraphTest, ResidualNetworkHasNoReluOutsideABatchNorm) {
  const Graph graph = Compiled(BuildEvaluationGraph(Preset("resnet56v2"), 2));
  int norms = 0;
  for (const Node& node : graph.nodes()) {
    EXPECT_FALSE(std::holds_alternative<ActivationOp>(node.op)) << node.name;
    norms += std::holds_alternative<BatchNormOp>(node.op) ? 1 : 0;
  }
  EXPECT_EQ(norms, 1 + (3 * 6 * 3 - 1) + 1);
}

TEST(BuildGraphTest, EvaluationHasTheSameParametersAndNoGradients) {
  const auto training = BuildTrainingGraph(Preset("lenet5"), 128);
  const auto evaluation = BuildEvaluationGraph(Preset("lenet5"), 100);
  ASSERT_TRUE(training.ok() && evaluation.ok());
  EXPECT_TRUE(std::ranges::equal(training->parameters(), evaluation->parameters()));
  EXPECT_THAT(evaluation->results(), IsEmpty());
}

TEST(BuildGraphTest, EvaluationGivesLogitsWhereAnExampleHasOneLabel) {
  const auto images = BuildEvaluationGraph(Preset("lenet5"), 4);
  const auto words = BuildEvaluationGraph(Preset("ptbLstm"), 4);
  ASSERT_TRUE(images.ok() && words.ok());
  EXPECT_THAT(images->outputs(), UnorderedElementsAre(Key("loss"), Key("correct"), Key("logits")));
  EXPECT_THAT(words->outputs(), UnorderedElementsAre(Key("loss"), Key("correct")));
}

TEST(BuildGraphTest, InferenceTakesNoLabelsAndGivesProbabilities) {
  const auto graph = BuildInferenceGraph(Preset("lenet5"), 1);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(FeedsOf(*graph), UnorderedElementsAre("input"));
  EXPECT_THAT(graph->outputs(), UnorderedElementsAre(Key("logits"), Key("probabilities")));
}

TEST(BuildGraphTest, RegressionFeedsATargetOfTheOutputsShape) {
  const auto graph = BuildTrainingGraph(Preset("linear"), 4);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(FeedsOf(*graph), UnorderedElementsAre("input", "target"));
  EXPECT_THAT(graph->outputs(), UnorderedElementsAre(Key("loss"), Key("prediction")));
  EXPECT_EQ(*OutputShapeOf(Preset("linear")), (Shape{1}));
}

TEST(BuildGraphTest, ConvolutionPoolAndActivationBecomeOneNode) {
  const Graph graph = Compiled(BuildEvaluationGraph(Preset("lenet5"), 8));
  const NodeId conv = graph.Find("conv1");
  ASSERT_GE(conv, 0);
  const Epilogue& epilogue = std::get<Conv2dOp>(graph.node(conv).op).epilogue;
  EXPECT_TRUE(epilogue.bias);
  EXPECT_TRUE(epilogue.max_pool.has_value());
  EXPECT_EQ(epilogue.activation, Activation::kTanh);
}

}  // namespace
}  // namespace trainyard::engine
