// A dense layer joined with its cross-entropy agrees with the reference backend, which holds the
// logits, on each instruction set.
#include "trainer/backend/cpu/join_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/lay_out.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/dense_cross_entropy.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine {
namespace {

struct WordsCase {
  int64_t batch = 1, steps = 1, width = 20, classes = 2;
  float scale = 1.0f;  // of the kernel: that of the logits
  bool bias = true;
  bool training = true;
};

// Words, the scores of the next ones and their loss; with the labels that lead, but for training.
Trial Words(const WordsCase& words) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value ids = trial.Labels("ids", {words.batch, words.steps}, 50);
  const Value x = *b.Embedding("embedding", ids, trial.Parameter("table", {50, words.width}));
  Value scores = *b.Dense("scores", x, trial.Parameter("kernel", {words.width, words.classes}));
  trial.Scale(words.scale);
  if (words.bias) scores = *b.Bias("bias_add", scores, trial.Parameter("bias", {words.classes}));
  const Value labels = trial.Labels("labels", {words.batch, words.steps}, static_cast<int32_t>(words.classes));
  const Value loss = *b.SoftmaxCrossEntropy("loss", scores, labels);
  if (words.training) {
    trial.Loss(loss);
  } else {
    EXPECT_TRUE(b.Output("loss", loss).ok());
    EXPECT_TRUE(b.Output("correct", *b.CorrectCount("correct", scores, labels)).ok());
  }
  return trial;
}

Graph Joined(Trial& trial) { return JoinCrossEntropy(LayOut(FuseEpilogues(trial.builder().graph())), /*least_classes=*/1); }

bool HasJoint(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return std::holds_alternative<DenseCrossEntropyOp>(node.op); });
}

// The largest difference relative to the largest value of its output or gradient.
double Difference(const TrialResult& found, const TrialResult& expected) {
  double worst = 0.0;
  const auto compare = [&](const auto& a, const auto& b) {
    double largest = 1e-9;
    for (const double value : b) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < b.size(); ++i) {
      const double difference = std::abs(static_cast<double>(a[i]) - b[i]) / largest;
      worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
    }
  };
  for (const auto& [name, values] : expected.outputs) compare(found.outputs.at(name), values);
  for (int key = 0; key < expected.grads.size(); ++key) compare(found.grads.values(key), expected.grads.values(key));
  return worst;
}

class JoinCrossEntropyTest : public testing::TestWithParam<std::string> {
 protected:
  static TrialResult OnCpu(Trial& trial, int threads, Precision precision = Precision::kFloat32) {
    const auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam(), .precision = precision});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto result = trial.RunRewritten(Joined(trial), **backend);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  static void ExpectAgreement(const WordsCase& words, double tolerance) {
    SCOPED_TRACE(testing::Message() << words.batch << " x " << words.steps << ", " << words.width << " to " << words.classes << ", scale "
                                    << words.scale << (words.training ? "" : ", evaluation"));
    Trial trial = Words(words);
    ASSERT_TRUE(HasJoint(Joined(trial)));
    const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64), /*fuse=*/false);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const TrialResult one = OnCpu(trial, 1);
    EXPECT_LT(Difference(one, *expected), tolerance);
    for (const int threads : {2, 3}) EXPECT_EQ(Difference(OnCpu(trial, threads), one), 0.0) << threads << " threads";
    if (!words.training) {
      EXPECT_EQ(one.outputs.at("correct"), expected->outputs.at("correct"));
    }
  }
};

TEST_P(JoinCrossEntropyTest, TrainingAndEvaluationAgreeOverRowsAndClasses) {
  for (const bool training : {true, false}) {
    for (const auto& [batch, steps] : {std::pair<int64_t, int64_t>{1, 1}, {5, 1}, {1, 17}, {20, 35}}) {
      for (const int64_t classes : {2, 35, 130}) {
        ExpectAgreement({.batch = batch, .steps = steps, .classes = classes, .bias = classes != 35, .training = training}, 3e-6);
      }
    }
  }
}

TEST_P(JoinCrossEntropyTest, TenThousandClassesAgree) {
  for (const bool training : {true, false}) {
    const WordsCase few{.batch = 5, .steps = 1, .width = 150, .classes = 10'000, .training = training};
    const WordsCase many{.batch = 20, .steps = 35, .width = 3, .classes = 10'000, .training = training};
    for (const WordsCase& words : FewIfSlow(std::vector{few, many})) ExpectAgreement(words, words.steps == 1 ? 3e-6 : 1e-5);
  }
}

TEST_P(JoinCrossEntropyTest, MoreRowsThanABlockAgree) {
  ExpectAgreement({.batch = 61, .steps = 35, .width = 4, .classes = 70}, 1e-5);
  ExpectAgreement({.batch = 61, .steps = 35, .width = 4, .classes = 70, .training = false}, 3e-6);
}

TEST_P(JoinCrossEntropyTest, LogitsWhoseExponentialsOverflowAgree) {
  for (const bool training : {true, false}) {
    for (const float scale : {10.0f, 30.0f, 300.0f}) {
      ExpectAgreement({.batch = 9, .steps = 5, .classes = 100, .scale = scale, .training = training}, 2e-5);
    }
  }
}

TEST_P(JoinCrossEntropyTest, TheFirstOfEqualScoresIsTheOneThatCounts) {
  // All scores are those of the bias: its last value is the highest.
  ExpectAgreement({.batch = 40, .steps = 5, .classes = 5, .scale = 0.0f, .training = false}, 3e-6);
  // All are zeros: class 0 counts.
  ExpectAgreement({.batch = 40, .steps = 5, .classes = 140, .scale = 0.0f, .bias = false, .training = false}, 3e-6);
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, JoinCrossEntropyTest, testing::ValuesIn(RunnableNames()),
                         [](const auto& info) { return info.param; });

std::vector<std::string> Bf16Names() {
  std::vector<std::string> names;
  for (const Bf16Instructions& known : KnownBf16Instructions()) names.emplace_back(known.isa);
  for (const KernelTable* table : RunnableKernels()) names.emplace_back(table->isa);
  return names;
}

class JoinCrossEntropyInBf16Test : public JoinCrossEntropyTest {};

TEST_P(JoinCrossEntropyInBf16Test, AgreesToTheRoundingOfItsOperands) {
  if (!SelectBf16Set(GetParam()).ok()) GTEST_SKIP() << "this machine has no " << GetParam();
  for (const auto& [batch, steps] : {std::pair<int64_t, int64_t>{1, 1}, {5, 1}, {1, 17}, {20, 35}}) {
    for (const WordsCase& words : {WordsCase{.classes = 2}, {.classes = 35, .bias = false}, {.width = 150, .classes = 300}}) {
      WordsCase sized = words;
      sized.batch = batch;
      sized.steps = steps;
      SCOPED_TRACE(testing::Message() << batch << " x " << steps << ", " << words.classes << " classes");
      Trial trial = Words(sized);
      const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64, Precision::kBfloat16), /*fuse=*/false);
      ASSERT_TRUE(expected.ok()) << expected.status();
      const TrialResult one = OnCpu(trial, 1, Precision::kBfloat16);
      EXPECT_LT(Difference(one, *expected), 1.0 / 128);
      EXPECT_NEAR(one.outputs.at("loss")[0], expected->outputs.at("loss")[0], 1e-5);
      EXPECT_EQ(Difference(OnCpu(trial, 2, Precision::kBfloat16), one), 0.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, JoinCrossEntropyInBf16Test, testing::ValuesIn(Bf16Names()),
                         [](const auto& info) { return info.param; });

// The values of a graph on cpu that are as large as the logits and lie in its memory.
int PlacedLogits(Trial trial, const Shape& shape) {
  const auto backend = MakeCpuBackend({.threads = 1});
  EXPECT_TRUE(backend.ok());
  const auto executor = Executor::Create(trial.builder().graph(), **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  int placed = 0;
  const Graph& graph = (*executor)->graph();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    for (int i = 0; i < static_cast<int>(graph.node(id).outputs.size()); ++i) {
      if (graph.node(id).outputs[i].shape != shape) continue;
      const bool arena = (*executor)->plan().at({id, i}).kind == ValueStorage::Kind::kArena;
      placed += arena ? 1 : 0;
      if (arena) {
        EXPECT_TRUE(std::holds_alternative<DenseCrossEntropyOp>(graph.node(id).op) && i == DenseCrossEntropyOutputs::kTerms)
            << graph.node(id).name;
      }
    }
  }
  return placed;
}

TEST(JoinedGraphTest, HoldsNothingAsLargeAsLogitsButWhatTheGradientsRead) {
  EXPECT_EQ(PlacedLogits(Words({.batch = 20, .steps = 35, .classes = 10'000}), {20, 35, 10'000}), 1);
  EXPECT_EQ(PlacedLogits(Words({.batch = 20, .steps = 35, .classes = 10'000, .training = false}), {20, 35, 10'000}), 0);
}

TEST(JoinedGraphTest, KeepsLogitsThatAreReadByOthers) {
  Trial trial = Words({.training = false});
  EXPECT_TRUE(HasJoint(Joined(trial)));
  const Graph& graph = trial.builder().graph();
  ASSERT_TRUE(trial.builder().Output("logits", {graph.Find("bias_add"), 0}).ok());
  EXPECT_FALSE(HasJoint(Joined(trial)));
}

TEST(JoinedGraphTest, KeepsFewClassesAndLogitsInPanels) {
  Trial few = Words({.batch = 20, .steps = 35, .classes = 100});
  EXPECT_FALSE(HasJoint(JoinCrossEntropy(LayOut(FuseEpilogues(few.builder().graph())))));
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value scores = *b.Dense("scores", trial.Input("x", {300, 4}), trial.Parameter("kernel", {4, 10'000}));
  trial.Loss(*b.SoftmaxCrossEntropy("loss", scores, trial.Labels("labels", {300}, 10'000)));
  EXPECT_FALSE(HasJoint(JoinCrossEntropy(LayOut(FuseEpilogues(b.graph())))));
}

TEST(JoinedGraphTest, RefusesALabelThatIsNoClassAsBefore) {
  Trial trial = Words({.batch = 2, .classes = 35});
  const auto backend = MakeCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok());
  std::vector<Feed> feeds = trial.feeds();
  std::vector<int32_t> labels = {3, 35};
  feeds[1].tensor.data = labels.data();
  const ParameterSet parameters = trial.parameters();
  ParameterSet gradients({parameters.specs().begin(), parameters.specs().end()});
  std::vector<std::string> messages;
  for (const Graph& graph : {trial.builder().graph(), Joined(trial)}) {
    const auto executor = Executor::Create(graph, **backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    messages.emplace_back((*executor)->Run({}, feeds, parameters, &gradients, nullptr).message());
  }
  EXPECT_NE(messages[0], "");
  EXPECT_EQ(messages[0], messages[1]);
}

}  // namespace
}  // namespace trainyard::engine
