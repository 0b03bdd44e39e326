// Parameters that do not learn beside others of the same node that do: nobody wants their
// gradients, and those of the others are the reference backend's, on each instruction set.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

struct Kernels {
  std::string isa;
  Precision precision;
};

std::vector<Kernels> AllKernels() {
  std::vector<Kernels> all;
  for (const std::string& isa : RunnableNames()) all.push_back({isa, Precision::kFloat32});
  for (const Bf16Set& set : RunnableBf16Sets()) all.push_back({set.isa, Precision::kBfloat16});
  return all;
}

class FrozenParametersTest : public testing::TestWithParam<Kernels> {
 protected:
  static void ExpectAgreement(const Trial& trial) {
    const auto [isa, precision] = GetParam();
    for (const bool fuse : {false, true}) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(testing::Message() << (fuse ? "fused, " : "not fused, ") << threads << " threads");
        const auto expected = trial.Run(*MakeReferenceBackend(DType::kF32, precision), fuse);
        const auto backend = MakeCpuBackend({.threads = threads, .isa = isa, .precision = precision});
        ASSERT_TRUE(backend.ok()) << backend.status();
        const auto found = trial.Run(**backend, fuse);
        ASSERT_TRUE(expected.ok()) << expected.status();
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_LT(LargestDifference(*found, *expected), precision == Precision::kFloat32 ? 2e-5 : 4e-3);
      }
    }
  }
};

// The parts of a layer that learn.
struct Learns {
  bool kernel;
  bool bias;
};
constexpr Learns kLearns[] = {{true, false}, {false, true}, {false, false}};

TEST_P(FrozenParametersTest, DenseLayersOfManyAndOfFewExamplesAgree) {
  for (const int64_t batch : {3, 40}) {
    for (const auto [kernel, bias] : kLearns) {
      SCOPED_TRACE(testing::Message() << "batch " << batch << ", kernel " << kernel << ", bias " << bias);
      Trial trial;
      GraphBuilder& b = trial.builder();
      const Value x = *b.Dense("first", trial.Input("x", {batch, 5}), trial.Parameter("first/kernel", {5, 20}));
      const Value y = *b.Dense("dense", x, trial.Parameter("dense/kernel", {20, 33}, kernel));
      trial.MeanSquaredLoss(*b.Bias("bias", y, trial.Parameter("dense/bias", {33}, bias)));
      ExpectAgreement(trial);
    }
  }
}

TEST_P(FrozenParametersTest, DenseLayersOfSequencesAgree) {
  for (const auto [kernel, bias] : kLearns) {
    SCOPED_TRACE(testing::Message() << "kernel " << kernel << ", bias " << bias);
    Trial trial;
    GraphBuilder& b = trial.builder();
    const Value x = *b.Embedding("x", trial.Labels("ids", {5, 3}, 4), trial.Parameter("table", {4, 7}));
    const Value y = *b.Dense("dense", x, trial.Parameter("dense/kernel", {7, 70}, kernel));
    trial.MeanSquaredLoss(*b.Bias("bias", y, trial.Parameter("dense/bias", {70}, bias)));
    ExpectAgreement(trial);
  }
}

TEST_P(FrozenParametersTest, ConvolutionsAgree) {
  struct Case {
    Shape images;
    int64_t window;
  };
  // Each is computed by another way: few channels, few samples, windows of one pixel.
  for (const auto& [images, window] : {Case{{20, 6, 5, 4}, 3}, Case{{3, 6, 5, 8}, 3}, Case{{20, 6, 5, 8}, 1}}) {
    for (const auto [kernel, bias] : kLearns) {
      SCOPED_TRACE(testing::Message() << "images " << images.ToString() << ", kernel " << kernel << ", bias " << bias);
      Trial trial;
      GraphBuilder& b = trial.builder();
      Value y = *b.Bias("x", trial.Input("images", images), trial.Parameter("shift", {images[3]}));
      y = *b.Conv2d("conv", y, trial.Parameter("conv/kernel", {window, window, images[3], 9}, kernel));
      y = *b.Bias("bias", y, trial.Parameter("conv/bias", {9}, bias));
      trial.MeanSquaredLoss(*b.Activate("tanh", y, Activation::kTanh));
      ExpectAgreement(trial);
    }
  }
}

TEST_P(FrozenParametersTest, RecurrentLayersAgree) {
  for (const Cell cell : {Cell::kSimpleRnn, Cell::kLstm, Cell::kGru}) {
    for (const auto [kernel, bias] : kLearns) {
      SCOPED_TRACE(testing::Message() << CellName(cell) << ", kernel " << kernel << ", bias " << bias);
      Trial trial;
      const int64_t units = 6;
      const int64_t width = GateCount(cell) * units;
      const Value z = *trial.builder().Dense("z", trial.Input("x", {3, 4, 2}), trial.Parameter("kernel", {2, width}));
      std::vector<Value> inputs = {z, trial.Parameter("recurrent_kernel", {units, width}, kernel)};
      if (cell == Cell::kGru) inputs.push_back(trial.Parameter("bias", {2, width}, bias));
      trial.MeanSquaredLoss(*trial.builder().Recurrent("recurrent", {.cell = cell, .bias = cell == Cell::kGru}, inputs));
      ExpectAgreement(trial);
    }
  }
}

TEST_P(FrozenParametersTest, BatchNormsAgree) {
  for (const auto [gamma, beta] : kLearns) {
    SCOPED_TRACE(testing::Message() << "gamma " << gamma << ", beta " << beta);
    Trial trial;
    GraphBuilder& b = trial.builder();
    const Value x = *b.Dense("x", trial.Input("input", {20, 3}), trial.Parameter("kernel", {3, 5}));
    const Value mean = trial.Parameter("mean", {5}, false);
    const Value variance = trial.Parameter("variance", {5}, false);
    const Value y =
        *b.BatchNorm("norm", x, {trial.Parameter("gamma", {5}, gamma), trial.Parameter("beta", {5}, beta), mean, variance}, 0.9f, 1e-3f);
    trial.MeanSquaredLoss(*b.Activate("relu", y, Activation::kRelu));
    ExpectAgreement(trial);
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, FrozenParametersTest, testing::ValuesIn(AllKernels()), [](const auto& info) {
  return info.param.isa + (info.param.precision == Precision::kFloat32 ? "" : "InBfloat16");
});

}  // namespace
}  // namespace trainyard::engine
