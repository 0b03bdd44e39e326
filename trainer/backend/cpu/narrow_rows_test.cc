// Values in rows that lie in memory as bfloat16: which they are, and that products take them as
// they would take the same values of float32.
#include "trainer/backend/cpu/narrow_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/join_cross_entropy.h"
#include "trainer/backend/cpu/lay_out.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/dense_cross_entropy.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Words, perhaps a recurrent layer over them, and the loss of the next words.
struct Sentences {
  int64_t batch = 2, steps = 3, width = 20, classes = 35;
  float scale = 1.0f;  // of the last kernel: that of the logits
  RecurrentOp op;
  int64_t units = 0;  // 0: no recurrent layer
};

Trial TrialOf(const Sentences& sentences) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Shape shape = {sentences.batch, sentences.steps};
  Value x = *b.Embedding("words", trial.Labels("ids", shape, 50), trial.Parameter("table", {50, sentences.width}));
  if (sentences.units > 0) {
    const int64_t gates = GateCount(sentences.op.cell) * sentences.units;
    const Value z = *b.Dense("project", x, trial.Parameter("projection", {sentences.width, gates}));
    std::vector<Value> inputs = {z, trial.Parameter("recurrent_kernel", {sentences.units, gates})};
    trial.Scale(0.3f);
    if (sentences.op.bias) inputs.push_back(trial.Parameter("recurrent_bias", {2, gates}));
    x = *b.Recurrent("cell", sentences.op, inputs);
  }
  const Value scores = *b.Dense("scores", x, trial.Parameter("kernel", {b.spec(x).shape[-1], sentences.classes}));
  trial.Scale(sentences.scale);
  const Value biased = *b.Bias("bias_add", scores, trial.Parameter("bias", {sentences.classes}));
  trial.Loss(*b.SoftmaxCrossEntropy("loss", biased, trial.Labels("labels", shape, static_cast<int32_t>(sentences.classes))));
  return trial;
}

Graph JoinedGraph(const Trial& trial) { return JoinCrossEntropy(LayOut(FuseEpilogues(trial.builder().graph())), /*least_classes=*/1); }

// What the graph names stays f32: the terms where there are some, and the gates of a cell.
Graph WithWideRows(const Trial& trial) {
  Graph graph = JoinedGraph(trial);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    if (std::holds_alternative<DenseCrossEntropyOp>(graph.node(id).op)) graph.SetOutput("terms", {id, DenseCrossEntropyOutputs::kTerms});
    const auto* recurrent = std::get_if<RecurrentOp>(&graph.node(id).op);
    if (recurrent != nullptr && recurrent->cell != Cell::kSimpleRnn) graph.SetOutput("gates", {id, RecurrentOutputs::kGates});
  }
  return graph;
}

// "name output" of each narrow value, in order.
std::vector<std::string> NarrowOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].narrow) names.push_back(node.name + " " + std::to_string(i));
    }
  }
  return names;
}

TEST(NarrowRowsTest, TermsAndGatesOfAnLstmAreNarrowAndNothingElseIs) {
  EXPECT_THAT(NarrowOf(NarrowRows(JoinedGraph(TrialOf({.op = {.cell = Cell::kLstm}, .units = 5})))), ElementsAre("cell 2", "scores 1"));
  for (const Cell other : {Cell::kGru, Cell::kSimpleRnn}) {
    EXPECT_THAT(NarrowOf(NarrowRows(JoinedGraph(TrialOf({.op = {.cell = other}, .units = 5})))), ElementsAre("scores 1"));
  }
}

TEST(NarrowRowsTest, WhatTheGraphNamesStaysF32) {
  EXPECT_THAT(NarrowOf(NarrowRows(WithWideRows(TrialOf({.op = {.cell = Cell::kLstm}, .units = 5})))), IsEmpty());
}

TEST(NarrowRowsTest, AGraphThatWasNotLaidOutStaysF32) {
  EXPECT_THAT(NarrowOf(NarrowRows(TrialOf({.op = {.cell = Cell::kLstm}, .units = 5}).builder().graph())), IsEmpty());
}

TEST(NarrowRowsTest, OnlyProductsOfBfloat16HaveThem) {
  const Graph graph = TrialOf({.classes = kLeastJoinedClasses, .op = {.cell = Cell::kLstm}, .units = 5}).builder().graph();
  const auto wide = MakeCpuBackend({.threads = 1});
  const auto narrow = MakeCpuBackend({.threads = 1, .precision = Precision::kBfloat16});
  ASSERT_TRUE(wide.ok() && narrow.ok());
  EXPECT_THAT(NarrowOf((*wide)->Rewrite(graph, {})), IsEmpty());
  EXPECT_THAT(NarrowOf((*narrow)->Rewrite(graph, {})), ElementsAre("cell 2", "scores 1"));
}

TEST(NarrowRowsTest, TheyTakeHalfTheBytesAndWholeVectors) {
  const auto backend = MakeCpuBackend({.threads = 1, .precision = Precision::kBfloat16});
  ASSERT_TRUE(backend.ok());
  ValueSpec spec{.shape = {5, 3, 7}, .batched = true, .row_major = true};
  EXPECT_EQ((*backend)->BytesFor(spec), 112 * sizeof(float));
  spec.narrow = true;
  EXPECT_EQ((*backend)->BytesFor(spec), 112 * sizeof(uint16_t));
}

class NarrowRowsRunTest : public testing::TestWithParam<std::string> {
 protected:
  static TrialResult Run(const Trial& trial, const Graph& graph, int threads = 1) {
    const auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam(), .precision = Precision::kBfloat16});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto result = trial.RunRewritten(graph, **backend);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static std::vector<float> Gradient(const TrialResult& result, std::string_view name) {
    const std::span<const float> values = result.grads.values(result.grads.Find(name));
    return {values.begin(), values.end()};
  }

  // The largest difference relative to the largest value.
  static double Difference(const std::vector<float>& found, const std::vector<float>& expected) {
    float difference = 0.0f, largest = 1e-9f;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference = std::max(difference, std::abs(found[i] - expected[i]));
      largest = std::max(largest, std::abs(expected[i]));
    }
    return static_cast<double>(difference / largest);
  }

  static void ExpectBitsOfWideTerms(const Sentences& sentences) {
    SCOPED_TRACE(testing::Message() << sentences.batch << " x " << sentences.steps << ", " << sentences.width << " to " << sentences.classes
                                    << ", scale " << sentences.scale);
    const Trial trial = TrialOf(sentences);
    const TrialResult wide = Run(trial, WithWideRows(trial));
    for (const int threads : {1, 2, 3}) {
      const TrialResult narrow = Run(trial, JoinedGraph(trial), threads);
      EXPECT_EQ(narrow.outputs.at("loss"), wide.outputs.at("loss"));
      EXPECT_EQ(Gradient(narrow, "kernel"), Gradient(wide, "kernel"));  // dw
      EXPECT_EQ(Gradient(narrow, "table"), Gradient(wide, "table"));    // rows of dx
      // Sums of terms, each of which was rounded: they may be of either sign.
      EXPECT_LT(Difference(Gradient(narrow, "bias"), Gradient(wide, "bias")), 1.0 / 128);
    }
  }
};

TEST_P(NarrowRowsRunTest, GradientsHaveTheBitsOfWideTerms) {
  std::vector<Sentences> cases;
  for (const auto& [batch, steps] : {std::pair<int64_t, int64_t>{1, 1}, {5, 1}, {1, 17}, {9, 35}}) {
    for (const int64_t classes : {2, 16, 35, 48, 130, 513}) {
      cases.push_back({.batch = batch, .steps = steps, .width = classes % 2 == 0 ? 20 : 33, .classes = classes});
    }
  }
  for (const Sentences& sentences : FewIfSlow(cases)) ExpectBitsOfWideTerms(sentences);
}

// More than one part of each product's sum, and of the rows.
TEST_P(NarrowRowsRunTest, GradientsOfManyRowsAndClassesHaveTheBitsOfWideTerms) {
  ExpectBitsOfWideTerms({.batch = 61, .steps = 35, .width = 5, .classes = 70});
  ExpectBitsOfWideTerms({.batch = 3, .steps = 7, .width = 18, .classes = 2'183});
}

TEST_P(NarrowRowsRunTest, GradientsOfRowsComputedAgainHaveTheBitsOfWideTerms) {
  for (const float scale : {10.0f, 30.0f, 300.0f}) ExpectBitsOfWideTerms({.batch = 9, .steps = 5, .classes = 101, .scale = scale});
}

// Labels that have nearly all of their row's sum. What is left would be lost in a rounded term.
TEST_P(NarrowRowsRunTest, TheLabelsTermIsRoundedOnceOnly) {
  for (const float scale : {2.0f, 5.0f}) ExpectBitsOfWideTerms({.batch = 9, .steps = 35, .width = 40, .classes = 2, .scale = scale});
}

TEST_P(NarrowRowsRunTest, RoundedGatesLeaveTheForwardPassAsItIsAndRoundItsGradients) {
  for (const RecurrentOp& op : {RecurrentOp{.cell = Cell::kLstm}, RecurrentOp{.cell = Cell::kLstm, .reverse = true}}) {
    for (const auto& [batch, units] : {std::pair<int64_t, int64_t>{1, 1}, {5, 7}, {17, 16}, {3, 33}, {20, 70}}) {
      SCOPED_TRACE(testing::Message() << "batch " << batch << ", " << units << " units");
      const Trial trial = TrialOf({.batch = batch, .steps = 5, .op = op, .units = units});
      const TrialResult wide = Run(trial, WithWideRows(trial));
      const TrialResult one = Run(trial, JoinedGraph(trial));
      EXPECT_EQ(one.outputs.at("loss"), wide.outputs.at("loss"));
      EXPECT_EQ(Gradient(one, "kernel"), Gradient(wide, "kernel"));  // of y, and of what is behind it
      for (const char* name : {"table", "projection", "recurrent_kernel"}) {
        // A gate is off by 2^-16; now and then an operand rounds to the other neighbour then.
        EXPECT_LT(Difference(Gradient(one, name), Gradient(wide, name)), 1.0 / 256) << name;
        if (units > 1) {
          EXPECT_NE(Gradient(one, name), Gradient(wide, name)) << name;
        }
        EXPECT_EQ(Gradient(Run(trial, JoinedGraph(trial), 3), name), Gradient(one, name)) << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, NarrowRowsRunTest, testing::ValuesIn(RunnableBf16Names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainyard::engine
