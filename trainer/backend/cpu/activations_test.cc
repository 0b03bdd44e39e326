// Every activation of the table, on each instruction set that this machine runs. Gradients are held
// against numeric differences, kernels against the reference backend.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

class ActivationsTest : public testing::TestWithParam<std::tuple<std::string, Activation>> {
 protected:
  static std::unique_ptr<Backend> Cpu() {
    auto backend = MakeCpuBackend({.threads = 1, .isa = std::get<0>(GetParam())});
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  static Activation activation() { return std::get<1>(GetParam()); }

  // The results of `build`, alone and fused.
  static void ExpectAgreement(const std::function<Value(Trial&)>& build) {
    Trial trial;
    trial.MeanSquaredLoss(build(trial));
    for (const bool fuse : {false, true}) {
      const auto expected = trial.Run(*MakeReferenceBackend(DType::kF64), fuse);
      const auto found = trial.Run(*Cpu(), fuse);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_LT(LargestDifference(*found, *expected), 2e-5) << (fuse ? "fused" : "alone");
    }
  }

  // `build` makes a value and a loss. With a NaN in the first input, outputs and gradients are NaN
  // in the same places on both backends.
  static void ExpectSameNans(const std::function<Value(Trial&)>& build, int64_t element = 5) {
    Trial trial;
    ASSERT_TRUE(trial.builder().Output("y", build(trial)).ok());
    trial.feeds()[0].tensor.values<float>()[element] = std::bit_cast<float>(0x7fc01235);  // a NaN that carries bits of its own
    for (const bool fuse : {false, true}) {
      const auto expected = trial.Run(*MakeReferenceBackend(DType::kF32), fuse);
      const auto found = trial.Run(*Cpu(), fuse);
      ASSERT_TRUE(expected.ok()) << expected.status();
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_TRUE(std::isnan(expected->outputs.at("loss")[0]));
      for (const auto& [name, values] : expected->outputs) ExpectSameNans<double>(found->outputs.at(name), values, name);
      for (int key = 0; key < expected->grads.size(); ++key) {
        ExpectSameNans<float>(found->grads.values(key), expected->grads.values(key), expected->grads.spec(key).name);
      }
    }
  }
  template <typename T>
  static void ExpectSameNans(std::span<const T> found, std::span<const T> expected, const std::string& name) {
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(std::isnan(found[i]), std::isnan(expected[i])) << name << " at " << i;
  }

  static Value Activated(Trial& trial, Value x) { return *trial.builder().Activate("active", x, activation()); }
  static Value Dense(Trial& trial, Value x, int64_t units) {
    const Value z = *trial.builder().Dense("dense", x, trial.Parameter("dense/kernel", {trial.builder().spec(x).shape[-1], units}));
    return Activated(trial, *trial.builder().Bias("dense/bias_add", z, trial.Parameter("dense/bias", {units})));
  }
  static Value Conv(Trial& trial) {
    const Value z = *trial.builder().Conv2d("conv", trial.Input("x", {18, 8, 8, 3}), trial.Parameter("conv/kernel", {3, 3, 3, 5}));
    return *trial.builder().Bias("conv/bias_add", z, trial.Parameter("conv/bias", {5}));
  }
  static constexpr Window kPool{.size = {2, 2}, .stride = {2, 2}};
};

TEST_P(ActivationsTest, GradientsEqualNumericDifferences) {
  Trial trial;
  trial.MeanSquaredLoss(Activated(trial, trial.Input("x", {3, 4})));
  const std::unique_ptr<Backend> backend = Cpu();
  const auto error = trial.CheckGradients({.inputs = {"x"}, .step = 1e-2f, .backend = backend.get()});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-4) << error->where;
}

TEST_P(ActivationsTest, DenseLayersOfManyAndOfFewExamplesAgree) {
  for (const int64_t batch : {20, 3}) {
    ExpectAgreement([&](Trial& trial) { return Dense(trial, trial.Input("x", {batch, 12}), 9); });
  }
}

TEST_P(ActivationsTest, DenseLayersOverStepsAgree) {
  ExpectAgreement([](Trial& trial) {
    return Dense(trial, *trial.builder().Embedding("x", trial.Labels("ids", {3, 5}, 4), trial.Parameter("table", {4, 12})), 9);
  });
}

TEST_P(ActivationsTest, ConvolutionsAgree) {
  ExpectAgreement([](Trial& trial) { return Activated(trial, Conv(trial)); });
}

TEST_P(ActivationsTest, PoolsBeforeAndBehindAgree) {
  ExpectAgreement([](Trial& trial) { return Activated(trial, *trial.builder().MaxPool("pool", Conv(trial), kPool)); });
  ExpectAgreement([](Trial& trial) { return *trial.builder().MaxPool("pool", Activated(trial, Conv(trial)), kPool); });
}

TEST_P(ActivationsTest, SimpleRnnsAgree) {
  ExpectAgreement([](Trial& trial) {
    const Value z = trial.Input("z", {5, 4, 6});
    const Value kernel = trial.Parameter("rnn/recurrent_kernel", {6, 6});
    trial.Scale(0.3f);  // small enough that the identity does not grow from step to step
    return *trial.builder().Recurrent("rnn", {.cell = Cell::kSimpleRnn, .activation = activation()}, {z, kernel});
  });
}

TEST_P(ActivationsTest, NansStayNans) {
  const auto with_loss = [](Trial& trial, Value y) {
    trial.MeanSquaredLoss(y);
    return y;
  };
  ExpectSameNans([&](Trial& trial) { return with_loss(trial, Activated(trial, trial.Input("x", {3, 4}))); });
  for (const int64_t batch : {20, 3}) {
    ExpectSameNans([&](Trial& trial) { return with_loss(trial, Dense(trial, trial.Input("x", {batch, 12}), 9)); });
  }
  ExpectSameNans([&](Trial& trial) { return with_loss(trial, Activated(trial, Conv(trial))); });
  ExpectSameNans([&](Trial& trial) { return with_loss(trial, *trial.builder().MaxPool("pool", Activated(trial, Conv(trial)), kPool)); });
  ExpectSameNans([&](Trial& trial) {
    const Value z = trial.Input("z", {5, 4, 6});
    const Value kernel = trial.Parameter("rnn/recurrent_kernel", {6, 6});
    return with_loss(trial, *trial.builder().Recurrent("rnn", {.cell = Cell::kSimpleRnn, .activation = activation()}, {z, kernel}));
  });
}

TEST_P(ActivationsTest, NansStayNansWhereverTheyAreInThePoolsWindow) {
  for (const int64_t row : {0, 1, 2}) {
    for (const int64_t column : {0, 1, 2}) {
      for (const Window& window : {kPool, Window{.size = {3, 3}, .stride = {3, 3}}}) {
        SCOPED_TRACE(testing::Message() << "row " << row << ", column " << column << ", window " << window.size[0]);
        const auto pooled = [&](bool behind_convolution) {
          return [&window, behind_convolution](Trial& trial) {
            Value x = trial.Input("x", {18, 6, 6, 3});
            if (behind_convolution) x = *trial.builder().Conv2d("conv", x, trial.Parameter("conv/kernel", {1, 1, 3, 5}));
            const Value y = *trial.builder().MaxPool("pool", Activated(trial, x), window);
            trial.MeanSquaredLoss(y);
            return y;
          };
        };
        ExpectSameNans(pooled(/*behind_convolution=*/false), (row * 6 + column) * 3);
        ExpectSameNans(pooled(/*behind_convolution=*/true), (row * 6 + column) * 3);
      }
    }
  }
}

TEST_P(ActivationsTest, NansStayNansBehindBatchNormalisation) {
  ExpectSameNans([](Trial& trial) {
    const Value x = trial.Input("x", {18, 3, 3, 4});
    const BatchNormParameters parameters{.gamma = trial.Parameter("gamma", {4}),
                                         .beta = trial.Parameter("beta", {4}),
                                         .moving_mean = trial.Parameter("moving_mean", {4}, /*trainable=*/false),
                                         .moving_variance = trial.Parameter("moving_variance", {4}, /*trainable=*/false)};
    const Value y = Activated(trial, *trial.builder().BatchNorm("norm", x, parameters, 0.9f, 1e-3f));
    trial.MeanSquaredLoss(y);
    return y;
  });
}

TEST_P(ActivationsTest, NansStayNansInACrossEntropy) {
  for (const int64_t batch : {20, 3}) {
    ExpectSameNans([&](Trial& trial) {
      const Value y = Dense(trial, trial.Input("x", {batch, 12}), 20);
      trial.Loss(*trial.builder().SoftmaxCrossEntropy("loss", y, trial.Labels("labels", {batch}, 20)));
      return y;
    });
  }
}

std::vector<Activation> AllActivations() {
  std::vector<Activation> all;
  VisitActivations([&]<Activation kActivation>() { all.push_back(kActivation); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, ActivationsTest, testing::Combine(testing::ValuesIn(RunnableNames()), testing::ValuesIn(AllActivations())),
                         [](const auto& info) {
                           return std::get<0>(info.param) + "_" + std::string(ActivationName(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace trainyard::engine
