// Values in rows: every op that takes them agrees on cpu with the reference backend, forward and
// backward, on each instruction set.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

class RowsTest : public testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Backend> Cpu(int threads) {
    auto backend = MakeCpuBackend({.threads = threads, .isa = GetParam()});
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }

  void ExpectAgreement(const Trial& trial, double tolerance = 2e-5) {
    for (const bool fuse : {false, true}) {
      const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64), fuse, step_);
      const auto one = trial.Run(*Cpu(1), fuse, step_);
      const auto three = trial.Run(*Cpu(3), fuse, step_);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(one.ok()) << one.status();
      ASSERT_TRUE(three.ok()) << three.status();
      EXPECT_LT(LargestDifference(*one, *expected), tolerance);
      EXPECT_EQ(LargestDifference(*three, *one), 0.0);
    }
  }

  StepContext step_{.seed = 3, .step = 5, .worker = 1};
};

// Scores of each step, their loss, and the labels that have the highest.
void StepLoss(Trial& trial, Value x, int32_t classes) {
  GraphBuilder& b = trial.builder();
  const Shape shape = b.spec(x).shape;
  Value scores = *b.Dense("head", x, trial.Parameter("head/kernel", {shape[-1], classes}));
  scores = *b.Bias("head/bias_add", scores, trial.Parameter("head/bias", {classes}));
  const Value labels = trial.Labels("labels", Shape(shape.extents().first(shape.rank() - 1)), classes);
  trial.Loss(*b.SoftmaxCrossEntropy("loss", scores, labels));
  ASSERT_TRUE(b.Output("correct", *b.CorrectCount("correct", scores, labels)).ok());
  ASSERT_TRUE(b.Output("logits", scores).ok());
}

TEST_P(RowsTest, RecurrentLayersAgreeOverBatchesStepsAndUnits) {
  int index = 0;
  for (const int64_t batch : {1, 5, 16, 17, 20, 128}) {
    for (const int64_t steps : {1, 3, 30}) {
      for (const Cell cell : {Cell::kSimpleRnn, Cell::kLstm, Cell::kGru}) {
        const int64_t units = std::array{1, 7, 16, 33, 70}[index % 5];
        const RecurrentOp op{.cell = cell,
                             .activation = std::array{Activation::kTanh, Activation::kSigmoid, Activation::kIdentity}[index % 3],
                             .bias = cell == Cell::kGru && index % 4 != 0,
                             .initial = index % 2 == 0,
                             .reverse = index % 7 < 2};
        ++index;
        if (batch * steps * units > (IsSlow() ? 3000 : 60000)) continue;
        SCOPED_TRACE(testing::Message() << CellName(cell) << " batch " << batch << " steps " << steps << " units " << units);
        Trial trial;
        const int64_t width = GateCount(cell) * units;
        std::vector<Value> inputs = {trial.Input("z", {batch, steps, width}), trial.Parameter("recurrent_kernel", {units, width})};
        // Small enough that a simple RNN without activation does not grow from step to step.
        trial.Scale(0.5f / static_cast<float>(units));
        if (op.bias) inputs.push_back(trial.Parameter("bias", {2, width}));
        if (op.initial) inputs.push_back(trial.Input("h", {batch, units}));
        if (op.initial && cell == Cell::kLstm) inputs.push_back(trial.Input("c", {batch, units}));
        Value y = *trial.builder().Recurrent("recurrent", op, inputs);
        if (index % 3 == 0) y = {y.node, RecurrentOutputs::kLast};
        StepLoss(trial, y, 5);
        ExpectAgreement(trial);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(RowsTest, EmbeddingsAndTimeDistributedDenseLayersAgree) {
  for (const int64_t batch : {1, 5, 20}) {
    for (const auto& [steps, width, units] : {std::array<int64_t, 3>{1, 3, 7}, {3, 20, 64}, {30, 33, 130}, {4, 1, 1}}) {
      SCOPED_TRACE(testing::Message() << "batch " << batch << " steps " << steps << ", " << width << " to " << units);
      Trial trial;
      GraphBuilder& b = trial.builder();
      const Value ids = trial.Labels("ids", {batch, steps}, 11);
      Value y = *b.Embedding("embedding", ids, trial.Parameter("table", {13, width}));
      y = *b.Dropout("dropout", y, 0.3f);
      y = *b.Dense("dense", y, trial.Parameter("dense/kernel", {width, units}));
      y = *b.Bias("bias_add", y, trial.Parameter("dense/bias", {units}));
      y = *b.Activate("tanh", y, Activation::kTanh);
      StepLoss(trial, y, 300);
      ExpectAgreement(trial);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(RowsTest, BothDirectionsSideBySideSummedAndFlattenedAgree) {
  for (const int64_t batch : {1, 17}) {
    Trial trial;
    GraphBuilder& b = trial.builder();
    const Value z = trial.Input("z", {batch, 4, 20});
    const Value forward = *b.Recurrent("forward", {}, {z, trial.Parameter("forward/kernel", {5, 20})});
    const Value backward = *b.Recurrent("backward", {.reverse = true}, {z, trial.Parameter("backward/kernel", {5, 20})});
    const Value sum = *b.Add("sum", std::array{forward, backward});
    const Value both = *b.Concat("both", std::array{forward, sum, backward});
    const Value flat = *b.Flatten("flat", *b.Softmax("softmax", both));
    // Its first input alone lies in panels, so the others are turned over.
    const Value panels = trial.Input("panels", {batch, 60});
    const Value other = *b.Concat("other", std::array{panels, flat, *b.Activate("relu", flat, Activation::kRelu)});
    trial.MeanSquaredLoss(*b.Dense("dense", other, trial.Parameter("kernel", {180, 3})));
    ExpectAgreement(trial);
  }
}

TEST_P(RowsTest, MeanSquaredErrorOfSequencesAgrees) {
  Trial trial;
  const Value x = *trial.builder().Embedding("x", trial.Labels("ids", {5, 3}, 4), trial.Parameter("table", {4, 7}));
  trial.MeanSquaredLoss(*trial.builder().Dense("dense", x, trial.Parameter("kernel", {7, 9})));
  ExpectAgreement(trial);
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, RowsTest, testing::ValuesIn(RunnableNames()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainyard::engine
