// A convolution that adds a branch to its results agrees with the reference backend, on each
// instruction set; in float32 it has the bits of two nodes.
#include "trainer/backend/cpu/join_add.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/lay_out.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/narrow_values.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine {
namespace {

enum class Branch { kImages, kConvolution };

// x [batch, size, size, channels] → conv + branch, with relu behind it or without.
struct BlockCase {
  int64_t batch = 1, size = 4, channels = 2, filters = 2;
  int kernel = 1, stride = 1;
  bool bias = false, relu = false;
  Branch branch = Branch::kConvolution;
};

Value BranchConv(Trial& trial, const std::string& name, Value x, const BlockCase& block, int kernel) {
  GraphBuilder& b = trial.builder();
  const Shape shape = {kernel, kernel, b.spec(x).shape[3], block.filters};
  const Value y = *b.Conv2d(name, x, trial.Parameter(name + "/kernel", shape), {block.stride, block.stride}, Padding::kSame);
  return block.bias ? *b.Bias(name + "/bias_add", y, trial.Parameter(name + "/bias", {block.filters})) : y;
}

// The sum of a residual block, and its loss.
Trial ResidualBlock(const BlockCase& block) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {block.batch, block.size, block.size, block.channels});
  const Value branch = block.branch == Branch::kImages ? x : BranchConv(trial, "shortcut", x, block, 1);
  const Value conv = BranchConv(trial, "conv", x, block, block.kernel);
  Value y = *b.Add("sum", std::array{branch, conv});
  if (block.relu) y = *b.Activate("relu", y, Activation::kRelu);
  const Value flat = *b.Flatten("flat", y);  // y itself would be kept in float32
  EXPECT_TRUE(b.Output("flat", flat).ok());
  trial.MeanSquaredLoss(flat);
  return trial;
}

Graph LaidOutBlock(Trial& trial) { return LayOut(FuseEpilogues(trial.builder().graph())); }

int64_t CountNodes(const Graph& graph, bool (*of)(const Node&)) { return std::ranges::count_if(graph.nodes(), of); }
bool IsSum(const Node& node) { return std::holds_alternative<AddOp>(node.op); }
bool AddsBranch(const Node& node) {
  const auto* conv = std::get_if<Conv2dOp>(&node.op);
  return conv != nullptr && conv->epilogue.add;
}

std::vector<BlockCase> ResidualCases() {
  std::vector<BlockCase> blocks;
  for (const int64_t batch : {1, 5, 16, 21}) {
    for (const BlockCase& block : std::vector<BlockCase>{
             {.size = 1, .channels = 1, .filters = 1, .branch = Branch::kImages},
             {.size = 5, .channels = 6, .filters = 30, .bias = true},
             {.size = 7, .channels = 34, .filters = 6, .relu = true},
             {.size = 5, .channels = 3, .filters = 5, .kernel = 3, .bias = true, .relu = true},
             {.size = 8, .channels = 6, .filters = 8, .kernel = 3, .stride = 2},
             {.size = 7, .channels = 16, .filters = 18, .kernel = 3, .bias = true},
             {.size = 6, .channels = 32, .filters = 32, .kernel = 3, .relu = true, .branch = Branch::kImages},
             {.size = 5, .channels = 16, .filters = 16, .kernel = 5},
         }) {
      blocks.push_back(block);
      blocks.back().batch = batch;
    }
  }
  return FewIfSlow(blocks);
}

std::string ResidualText(const BlockCase& block) {
  return testing::PrintToString(std::vector<int64_t>{block.batch, block.size, block.channels, block.filters, block.kernel, block.stride});
}

class JoinAddTest : public testing::TestWithParam<std::string> {
 protected:
  static TrialResult OnCpu(const Trial& trial, const Graph& graph, int threads, Precision precision = Precision::kFloat32) {
    const auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam(), .precision = precision});
    EXPECT_TRUE(backend.ok()) << backend.status();
    auto result = trial.RunRewritten(graph, **backend, /*fuse=*/false);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }
};

TEST_P(JoinAddTest, ResultsAndGradientsHaveTheBitsOfTwoNodesAndAgreeWithTheReference) {
  for (const BlockCase& block : ResidualCases()) {
    SCOPED_TRACE(ResidualText(block));
    Trial trial = ResidualBlock(block);
    const Graph apart = LaidOutBlock(trial);
    const Graph joined = JoinAdds(apart);
    ASSERT_EQ(CountNodes(joined, AddsBranch), 1);
    ASSERT_EQ(CountNodes(joined, IsSum), 0);
    const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64), /*fuse=*/false);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const TrialResult one = OnCpu(trial, joined, 1);
    EXPECT_LT(LargestDifference(one, *expected), 1e-4);
    EXPECT_EQ(LargestDifference(one, OnCpu(trial, apart, 1)), 0.0);
    for (const int threads : {2, 3}) EXPECT_EQ(LargestDifference(OnCpu(trial, joined, threads), one), 0.0) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, JoinAddTest, testing::ValuesIn(RunnableNames()), [](const auto& info) { return info.param; });

class JoinAddInBf16Test : public JoinAddTest {};

TEST_P(JoinAddInBf16Test, AgreesToTheRoundingOfItsValues) {
  for (const BlockCase& block : ResidualCases()) {
    SCOPED_TRACE(ResidualText(block));
    Trial trial = ResidualBlock(block);
    const Graph joined = JoinAdds(LaidOutBlock(trial));
    const auto expected = trial.RunRewritten(joined, *MakeReferenceBackend(DType::kF64, Precision::kBfloat16), /*fuse=*/false);
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto run = [&](int threads) { return OnCpu(trial, joined, threads, Precision::kBfloat16); };
    const TrialResult one = run(1);
    EXPECT_LT(LargestDifference(one, *expected), 1.0 / 128);
    EXPECT_EQ(LargestDifference(run(2), one), 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, JoinAddInBf16Test, testing::ValuesIn(RunnableBf16Names()),
                         [](const auto& info) { return info.param; });

TEST(JoinedSumTest, NothingIsJoinedWhoseValueOthersRead) {
  Trial named = ResidualBlock({});
  ASSERT_TRUE(named.builder().Output("conv", {named.builder().graph().Find("conv"), 0}).ok());
  ASSERT_TRUE(named.builder().Output("shortcut", {named.builder().graph().Find("shortcut"), 0}).ok());
  EXPECT_EQ(CountNodes(JoinAdds(LaidOutBlock(named)), AddsBranch), 0);

  Trial twice;
  GraphBuilder& b = twice.builder();
  const Value x = twice.Input("x", {3, 4, 4, 2});
  const Value y = BranchConv(twice, "conv", x, {}, 1);
  twice.MeanSquaredLoss(*b.Flatten("flat", *b.Add("sum", std::array{y, y})));
  EXPECT_EQ(CountNodes(JoinAdds(LaidOutBlock(twice)), AddsBranch), 0);
}

TEST(JoinedSumTest, OneOfTwoConvolutionsTakesTheSumInAndTheOtherIsTheBranch) {
  Trial trial = ResidualBlock({});
  const Graph& graph = trial.builder().graph();
  const Graph joined = JoinAdds(LaidOutBlock(trial));
  EXPECT_TRUE(AddsBranch(joined.node(joined.Find("conv"))));
  EXPECT_FALSE(AddsBranch(joined.node(joined.Find("shortcut"))));
  ASSERT_TRUE(trial.builder().Output("conv", {graph.Find("conv"), 0}).ok());
  const Graph other = JoinAdds(LaidOutBlock(trial));
  EXPECT_TRUE(AddsBranch(other.node(other.Find("shortcut"))));
}

TEST(JoinedSumTest, ASumIsHeldAsBfloat16WhereItsBranchIs) {
  Trial narrow = ResidualBlock({.relu = true});
  const Graph joined = NarrowValues(JoinAdds(LaidOutBlock(narrow)), NarrowReach::kDense);
  EXPECT_TRUE(joined.node(joined.Find("shortcut")).outputs[0].narrow);
  EXPECT_TRUE(joined.node(joined.Find("conv")).outputs[0].narrow);

  Trial wide = ResidualBlock({.branch = Branch::kImages});
  const Graph of_images = NarrowValues(JoinAdds(LaidOutBlock(wide)), NarrowReach::kDense);
  EXPECT_FALSE(of_images.node(of_images.Find("conv")).outputs[0].narrow);
}

TEST(JoinedSumTest, SumsOfThreeAndOfActivatedOrPooledConvolutionsStay) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {3, 4, 4, 2});
  const Value active = *b.Activate("active", BranchConv(trial, "conv1", x, {}, 1), Activation::kTanh);
  const Value sum = *b.Add("sum1", std::array{active, x});
  const Value three = *b.Add("sum3", std::array{sum, BranchConv(trial, "conv2", sum, {}, 1), x});
  const Value pooled = *b.MaxPool("pool", BranchConv(trial, "conv3", three, {}, 1), {.size = {2, 2}, .stride = {2, 2}});
  const Value other = *b.MaxPool("other", three, {.size = {2, 2}, .stride = {2, 2}});
  trial.MeanSquaredLoss(*b.Flatten("flat", *b.Add("sum", std::array{pooled, other})));
  EXPECT_EQ(CountNodes(JoinAdds(LaidOutBlock(trial)), AddsBranch), 0);
}

}  // namespace
}  // namespace trainyard::engine
