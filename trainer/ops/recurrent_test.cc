#include "trainer/ops/recurrent.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/test_gradients.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kSamples = 3;
constexpr int64_t kUnits = 4;

// The inputs of a recurrent node over `steps` steps, each a product of a parameter, so that every
// gradient is checked.
Value Recurrent(Trial& trial, const RecurrentOp& op, int64_t steps) {
  const int64_t width = GateCount(op.cell) * kUnits;
  const Value x = trial.Input("x", {kSamples, steps, 2});
  const Value z = *trial.builder().Dense("z", x, trial.Parameter("kernel", {2, width}));
  std::vector<Value> inputs = {z, trial.Parameter("recurrent_kernel", {kUnits, width})};
  if (op.bias) inputs.push_back(trial.Parameter("bias", {2, width}));
  if (op.initial) inputs.push_back(trial.Input("h", {kSamples, kUnits}));
  if (op.initial && op.cell == Cell::kLstm) inputs.push_back(trial.Input("c", {kSamples, kUnits}));
  return *trial.builder().Recurrent("recurrent", op, std::move(inputs));
}

TEST(Recurrent, GradientsOfTheSequenceEqualNumericDifferences) {
  for (const Cell cell : {Cell::kSimpleRnn, Cell::kLstm, Cell::kGru}) {
    for (const bool initial : {false, true}) {
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(testing::Message() << CellName(cell) << (initial ? " initial" : "") << (reverse ? " reverse" : ""));
        Trial trial;
        trial.MeanSquaredLoss(Recurrent(trial, {.cell = cell, .bias = cell == Cell::kGru, .initial = initial, .reverse = reverse}, 5));
        ExpectRightGradients(trial);
      }
    }
  }
}

TEST(Recurrent, GradientsOfTheLastStepAndOfBothEqualNumericDifferences) {
  for (const Cell cell : {Cell::kSimpleRnn, Cell::kLstm, Cell::kGru}) {
    SCOPED_TRACE(CellName(cell));
    Trial trial;
    const Value y = Recurrent(trial, {.cell = cell}, 3);
    trial.MeanSquaredLoss({y.node, RecurrentOutputs::kLast});
    ExpectRightGradients(trial);

    Trial both;
    const Value sequence = Recurrent(both, {.cell = cell}, 3);
    const Value flat = *both.builder().Flatten("flat", sequence);
    both.MeanSquaredLoss(*both.builder().Concat("both", std::array{flat, Value{sequence.node, RecurrentOutputs::kLast}}));
    ExpectRightGradients(both);
  }
}

TEST(Recurrent, GradientsOfASimpleRnnWithAnotherActivation) {
  Trial trial;
  trial.MeanSquaredLoss(Recurrent(trial, {.cell = Cell::kSimpleRnn, .activation = Activation::kSigmoid}, 4));
  ExpectRightGradients(trial);
}

TEST(Recurrent, WeightsThatDoNotLearnHaveNoGradients) {
  for (const Cell cell : {Cell::kSimpleRnn, Cell::kLstm, Cell::kGru}) {
    SCOPED_TRACE(CellName(cell));
    Trial trial;
    const int64_t width = GateCount(cell) * kUnits;
    const Value z = *trial.builder().Dense("z", trial.Input("x", {kSamples, 3, 2}), trial.Parameter("kernel", {2, width}));
    trial.MeanSquaredLoss(*trial.builder().Recurrent("recurrent", {.cell = cell},
                                                     {z, trial.Parameter("recurrent_kernel", {kUnits, width}, /*trainable=*/false)}));
    ExpectRightGradients(trial);
  }
}

// One unit, by hand: two steps of an LSTM whose gates see z alone.
TEST(Recurrent, LstmFollowsItsFormula) {
  GraphBuilder builder;
  const Value z = *builder.Input("z", {1, 2, 4});
  const Value y = *builder.Recurrent("lstm", {.cell = Cell::kLstm}, {z, *builder.Parameter("recurrent_kernel", {1, 4})});
  ASSERT_TRUE(builder.Output("y", y).ok());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend(DType::kF64);
  const auto executor = Executor::Create(std::move(builder).Build(), *backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::array<float, 8> gates = {1, 2, 3, 4, -1, 0.5, -2, 0.25};  // i, f, g, o of step 0, of step 1
  const Feed feed{"z", {DType::kF32, {1, 2, 4}, gates.data()}};
  const auto specs = (*executor)->graph().parameters();
  const ParameterSet zeros({specs.begin(), specs.end()});
  ASSERT_TRUE((*executor)->Run({}, std::span(&feed, 1), zeros, nullptr, nullptr).ok());
  std::array<double, 2> found{};
  ASSERT_TRUE((*executor)->Fetch("y", {DType::kF64, {1, 2, 1}, found.data()}).ok());
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double c0 = sigmoid(1) * std::tanh(3);
  const double c1 = sigmoid(0.5) * c0 + sigmoid(-1) * std::tanh(-2);
  EXPECT_NEAR(found[0], sigmoid(4) * std::tanh(c0), 1e-12);
  EXPECT_NEAR(found[1], sigmoid(0.25) * std::tanh(c1), 1e-12);
}

TEST(Recurrent, StateGoesFromStepToStepAndSplitSequencesGiveTheSame) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto run = [&](int64_t steps, ParameterSet& state, ParameterSet& params, std::span<float> z) {
    GraphBuilder builder;
    const Value x = *builder.Input("z", {1, steps, 4});
    const Value kernel = *builder.Parameter("recurrent_kernel", {1, 4});
    const Value h = *builder.State("h", {1, 1});
    const Value c = *builder.State("c", {1, 1});
    const Value y = *builder.Recurrent("lstm", {.cell = Cell::kLstm, .initial = true}, {x, kernel, h, c});
    EXPECT_TRUE(builder.NextState(h, {y.node, RecurrentOutputs::kLast}).ok());
    EXPECT_TRUE(builder.NextState(c, {y.node, RecurrentOutputs::kLastCell}).ok());
    const auto executor = Executor::Create(std::move(builder).Build(), *backend);
    EXPECT_TRUE(executor.ok()) << executor.status();
    const auto states = (*executor)->graph().states();
    if (state.size() == 0) state = ParameterSet({states.begin(), states.end()});
    if (params.size() == 0) {
      const auto specs = (*executor)->graph().parameters();
      params = ParameterSet({specs.begin(), specs.end()});
      for (int i = 0; i < 4; ++i) params.values(0)[i] = 0.5f - 0.3f * static_cast<float>(i);
    }
    const Feed feed{"z", {DType::kF32, {1, steps, 4}, z.data()}};
    EXPECT_EQ((*executor)->Run({}, std::span(&feed, 1), params, nullptr, nullptr).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE((*executor)->Run({}, std::span(&feed, 1), params, nullptr, nullptr, &state).ok());
  };
  std::array<float, 24> z{};
  for (size_t i = 0; i < z.size(); ++i) z[i] = std::sin(static_cast<float>(i));
  ParameterSet params;
  ParameterSet whole;
  run(6, whole, params, z);
  ParameterSet parts;
  run(2, parts, params, std::span(z).first(8));
  run(4, parts, params, std::span(z).last(16));
  EXPECT_NE(whole.values(0)[0], 0.0f);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(whole.values(i)[0], parts.values(i)[0]);
}

TEST(Recurrent, OddShapesAreErrorsThatSayWhatWasExpected) {
  Trial trial;
  const Value kernel = trial.Parameter("recurrent_kernel", {3, 12});
  const Value z = trial.Input("z", {2, 5, 12});
  EXPECT_EQ(trial.builder().Recurrent("lstm", {}, {trial.Input("odd", {2, 5, 10}), kernel}).status().message(),
            "layer 'lstm': input has shape [2, 5, 10], expected [batch, steps, 4 * units]");
  EXPECT_TRUE(trial.builder().Recurrent("lstm", {}, {z, kernel}).ok());
  EXPECT_EQ(trial.builder().Recurrent("lstm2", {}, {z, trial.Parameter("other", {4, 12})}).status().message(),
            "layer 'lstm2': recurrent kernel has shape [4, 12], expected [units, gates * units] [3, 12]");
}

}  // namespace
}  // namespace trainyard::engine
