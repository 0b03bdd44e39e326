// Every op agrees with the reference backend, forward and backward: on this machine, whose loops
// run the GPU's bodies, and on a GPU where there is one.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/backend/cuda/test_trials.h"
#include "trainer/backend/cuda/test_where.h"
#include "trainer/backend/reference/reference_backend.h"

namespace trainyard::engine::cuda {
namespace {

class Agreement : public TestSomewhere {
 protected:
  void ExpectAgreement(Backend& backend, const NamedTrial& named, const StepContext& step, double tolerance,
                       Precision precision = Precision::kFloat32) {
    SCOPED_TRACE(named.name);
    for (const bool fuse : {false, true}) {
      const auto expected = named.trial.Run(*MakeReferenceBackend(DType::kF64, precision), fuse, step);
      const auto found = named.trial.Run(backend, fuse, step);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_LT(LargestDifference(*found, *expected), tolerance) << (fuse ? "fused" : "not fused");
    }
  }

  const StepContext training_{.seed = 3, .step = 5, .worker = 1};
  const StepContext evaluation_{.training = false};
};

TEST_P(Agreement, EveryOpAgreesForwardAndBackward) {
  const auto backend = MakeBackend();
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const NamedTrial& trial : AllTrials()) ExpectAgreement(**backend, trial, training_, 5e-5);
}

TEST_P(Agreement, EveryOpAgreesOutsideTraining) {
  const auto backend = MakeBackend();
  ASSERT_TRUE(backend.ok()) << backend.status();
  for (const NamedTrial& trial : {NormalisedBlock(5, 6, /*epsilon=*/1.5f), EmbeddingTrial(5, 3, 20, 64)}) {
    ExpectAgreement(**backend, trial, evaluation_, 5e-5);
  }
}

TEST_P(Agreement, GradientsAreThoseOfNumericDifferences) {
  const auto backend = MakeBackend();
  ASSERT_TRUE(backend.ok()) << backend.status();
  std::vector<NamedTrial> trials;
  trials.push_back(PooledAverages({{3, 3}, {2, 2}, Padding::kSame}, 0));
  for (const int small : {2, 7}) trials.push_back(std::move(ConvolutionTrials()[small]));
  for (const int first_of_cell : {0, 1, 2}) trials.push_back(std::move(RecurrentTrials()[first_of_cell]));
  for (const NamedTrial& named : trials) {
    const auto error = named.trial.CheckGradients({.fuse = true, .step = 1e-2f, .backend = backend->get()});
    ASSERT_TRUE(error.ok()) << error.status();
    EXPECT_LT(error->difference, 5e-3) << named.name << ": " << error->where;
  }
}

// What a rounded operand does to results is far above what an f32 sum's order does. A unit is that
// of bfloat16; float16 has three bits more.
TEST_P(Agreement, ProductsOf16BitsRoundTheirOperandsAsTheReferenceDoes) {
  for (const Precision precision : {Precision::kBfloat16, Precision::kFloat16}) {
    const double unit = precision == Precision::kBfloat16 ? 1 : 0.125;
    SCOPED_TRACE(PrecisionName(precision));
    const auto backend = MakeBackend(precision);
    ASSERT_TRUE(backend.ok()) << backend.status();
    for (const NamedTrial& named : AllTrials()) ExpectAgreement(**backend, named, training_, 5e-3 * unit, precision);
    const NamedTrial dense = EmbeddingTrial(5, 3, 20, 64);
    ExpectAgreement(**backend, dense, training_, 5e-4 * unit, precision);
    EXPECT_GT(LargestDifference(*dense.trial.Run(**backend, true, training_),
                                *dense.trial.Run(*MakeReferenceBackend(DType::kF64), true, training_)),
              1e-3 * unit);
  }
}

// A power of two costs no bits in f32.
TEST_P(Agreement, TheLossScaleMultipliesAllGradientsAndNothingElse) {
  StepContext scaled = training_;
  scaled.loss_scale = 1024;
  const auto backend = MakeBackend();
  ASSERT_TRUE(backend.ok()) << backend.status();
  const std::unique_ptr<Backend> reference = MakeReferenceBackend();
  for (Backend* const which : {backend->get(), reference.get()}) {
    const NamedTrial named = NormalisedBlock(5, 6);
    const auto plain = named.trial.Run(*which, true, training_);
    const auto found = named.trial.Run(*which, true, scaled);
    ASSERT_TRUE(plain.ok() && found.ok()) << plain.status() << found.status();
    EXPECT_EQ(found->outputs, plain->outputs);
    for (int key = 0; key < plain->grads.size(); ++key) {
      const float scale = plain->grads.spec(key).trainable ? 1024 : 1;
      for (size_t i = 0; i < plain->grads.values(key).size(); ++i) {
        ASSERT_EQ(found->grads.values(key)[i], scale * plain->grads.values(key)[i]) << plain->grads.spec(key).name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Where, Agreement, WhereValues(), WhereName);

TEST(DeviceBackend, ConvolutionsOfFewSamplesAtATimeAreTheSame) {
  const auto whole = MakeDeviceBackend(std::make_unique<HostDevice>());
  const auto parts = MakeDeviceBackend(std::make_unique<HostDevice>(), {.column_bytes = 1});
  ASSERT_TRUE(whole.ok() && parts.ok());
  for (const NamedTrial& named : ConvolutionTrials()) {
    const auto one = named.trial.Run(**whole, true);
    const auto other = named.trial.Run(**parts, true);
    ASSERT_TRUE(one.ok() && other.ok());
    EXPECT_LT(LargestDifference(*one, *other), 1e-6) << named.name;
  }
}

TEST(DeviceBackend, ConvolutionsOfALibraryGetTheirKernelsTurned) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    const auto columns = MakeDeviceBackend(std::make_unique<HostDevice>(), {.precision = precision});
    const auto library = MakeDeviceBackend(std::make_unique<HostDevice>(HostDeviceOptions{.convolves = true}), {.precision = precision});
    ASSERT_TRUE(columns.ok() && library.ok());
    for (const NamedTrial& named : ConvolutionTrials()) {
      for (const bool fuse : {false, true}) {
        const auto one = named.trial.Run(**columns, fuse);
        const auto other = named.trial.Run(**library, fuse);
        ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
        EXPECT_LT(LargestDifference(*one, *other), precision == Precision::kFloat32 ? 1e-5 : 5e-3) << named.name;
      }
    }
  }
}

TEST(DeviceBackend, DropsTheSameElementsAsTheReference) {
  Trial trial;
  const Value x = trial.Input("x", {5, 7, 3});
  ASSERT_TRUE(trial.builder().Output("y", *trial.builder().Dropout("dropout", x, 0.4f)).ok());
  const auto backend = MakeDeviceBackend(std::make_unique<HostDevice>());
  const StepContext step{.seed = 9, .step = 1ull << 40, .worker = 3};
  const auto found = trial.Run(**backend, false, step);
  const auto expected = trial.Run(*MakeReferenceBackend(), false, step);
  ASSERT_TRUE(found.ok() && expected.ok());
  EXPECT_EQ(found->outputs, expected->outputs);
}

TEST(DeviceBackend, AFailureNamesTheNodeAndEndsAllWork) {
  const NamedTrial named = NormalisedBlock(1, 2);
  const auto backend = MakeDeviceBackend(std::make_unique<HostDevice>(HostDeviceOptions{.fails_at = 2}));
  const auto first = named.trial.Run(**backend, true);
  EXPECT_EQ(first.status().message(), "node 'norm1': the kernel was refused");
  EXPECT_EQ(named.trial.Run(**backend, true).status(), first.status());
}

}  // namespace
}  // namespace trainyard::engine::cuda
