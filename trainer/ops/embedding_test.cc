#include "trainer/ops/embedding.h"

#include <gtest/gtest.h>

#include <array>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/test_gradients.h"

namespace trainyard::engine {
namespace {

TEST(Embedding, GradientsEqualNumericDifferencesAlsoOfTokensThatComeTwice) {
  Trial trial;
  const Value ids = trial.Labels("ids", {4, 3}, 5);
  trial.MeanSquaredLoss(*trial.builder().Embedding("embedding", ids, trial.Parameter("table", {7, 2})));
  ExpectRightGradients(trial, {});
}

TEST(Embedding, RowsThatNobodyReadHaveNoGradient) {
  Trial trial;
  const Value ids = trial.Labels("ids", {2, 2}, 3);
  trial.MeanSquaredLoss(*trial.builder().Embedding("embedding", ids, trial.Parameter("table", {5, 2})));
  const auto result = trial.Run(*MakeReferenceBackend(), /*fuse=*/true);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int i = 0; i < 6; ++i) EXPECT_NE(result->grads.values(0)[i], 0.0f);
  for (int i = 6; i < 10; ++i) EXPECT_EQ(result->grads.values(0)[i], 0.0f);
}

TEST(Embedding, OfRealNumbersIsAnError) {
  Trial trial;
  EXPECT_EQ(trial.builder().Embedding("embedding", trial.Input("x", {2, 3}), trial.Parameter("table", {5, 2})).status().message(),
            "layer 'embedding': ids are F32 of shape [2, 3], expected I32 [batch, ..]");
}

TEST(Concat, GradientsEqualNumericDifferences) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const std::array parts = {trial.Input("a", {2, 3, 2}), trial.Input("b", {2, 3, 1}), trial.Input("c", {2, 3, 3})};
  const Value y = *builder.Concat("concat", parts);
  EXPECT_EQ(builder.spec(y).shape, Shape({2, 3, 6}));
  trial.MeanSquaredLoss(*builder.Activate("tanh", y, Activation::kTanh));
  const auto error = trial.CheckGradients({.inputs = {"a", "b", "c"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

TEST(Concat, OfOtherExtentsBeforeTheLastIsAnError) {
  Trial trial;
  const std::array parts = {trial.Input("a", {2, 3}), trial.Input("b", {2, 4, 3})};
  EXPECT_EQ(trial.builder().Concat("concat", parts).status().message(),
            "layer 'concat': input 0 without its last extent has shape [2, 3] and input 1 has [2, 4, 3], expected the same");
}

}  // namespace
}  // namespace trainyard::engine
