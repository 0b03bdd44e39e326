#include "trainer/train/model_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kSteps = 3;

ModelSpec Spec(bool stateful) {
  FieldErrors errors;
  ModelSpec spec = ParseModelSpec({{"input", {{"shape", {kSteps}}, {"vocabulary", 5}}},
                                   {"layers",
                                    {{{"embedding", {{"outputDim", 4}}}},
                                     {{"lstm", {{"units", 6}, {"returnSequences", true}, {"stateful", stateful}}}},
                                     {{"dense", {{"units", 5}}}}}},
                                   {"loss", "softmaxCrossEntropy"}},
                                  "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("model");
  return spec;
}

// Rows of made-up tokens, each to be followed by the next one.
class Tokens : public Dataset {
 public:
  explicit Tokens(int64_t examples) {
    info_.examples = examples;
    info_.example_shape = info_.label_shape = {kSteps};
    info_.x_dtype = info_.y_dtype = DType::kI32;
  }
  const DatasetInfo& info() const override { return info_; }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), DType::kI32, {kSteps}, DType::kI32, {kSteps});
    for (size_t i = 0; i < indices.size() * kSteps; ++i) {
      batch.x.values<int32_t>()[i] = static_cast<int32_t>((indices[i / kSteps] + static_cast<int64_t>(i)) % 5);
      batch.y.values<int32_t>()[i] = static_cast<int32_t>((indices[i / kSteps] + static_cast<int64_t>(i) + 1) % 5);
    }
    return absl::OkStatus();
  }

 private:
  DatasetInfo info_;
};

class ModelRunnerTest : public testing::Test {
 protected:
  explicit ModelRunnerTest(bool stateful = true) : runner_(Spec(stateful), *backend_), parameters_(*ParameterSpecsOf(runner_.spec())) {
    gradients_ = ParameterSet(*ParameterSpecsOf(runner_.spec()));
    InitializeParameters(runner_.spec(), 1, parameters_);
  }
  absl::StatusOr<double> Train(std::vector<int64_t> rows) {
    Batch batch;
    TY_CHECK(Tokens(10).Read(rows, batch).ok());
    return runner_.Train({}, batch, parameters_, gradients_, nullptr);
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  ModelRunner runner_;
  ParameterSet parameters_;
  ParameterSet gradients_;
};

TEST_F(ModelRunnerTest, StateGoesFromBatchToBatchUntilItIsReset) {
  const double first = *Train({1, 2});
  const double second = *Train({1, 2});
  EXPECT_NE(first, second);
  ParameterSet* const state = *runner_.TrainingState(2);
  ASSERT_NE(state, nullptr);
  EXPECT_EQ(state->spec(0).name, "lstm/h");
  EXPECT_NE(state->values(0)[0], 0.0F);
  runner_.ResetState();
  EXPECT_EQ(*Train({1, 2}), first);
  EXPECT_EQ(*Train({1, 2}), second);
}

TEST_F(ModelRunnerTest, EvaluationHasAStateOfItsOwnThatStartsWithZeros) {
  const double first = *Train({1, 2});
  const auto evaluation = runner_.Evaluate(Tokens(8), 2, parameters_);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->labels, 8 * kSteps);
  EXPECT_EQ(runner_.Evaluate(Tokens(8), 2, parameters_)->loss, evaluation->loss);
  const double second = *Train({1, 2});
  runner_.ResetState();
  EXPECT_EQ(*Train({1, 2}), first);
  EXPECT_EQ(*Train({1, 2}), second);
}

TEST_F(ModelRunnerTest, BatchesOfUnequalSizeAreAnErrorWhereStateIsCarried) {
  ASSERT_TRUE(Train({1, 2}).ok());
  EXPECT_THAT(std::string(Train({1, 2, 3}).status().message()), testing::HasSubstr("a batch has 3 examples, the one before had 2"));
  EXPECT_EQ(runner_.Evaluate(Tokens(7), 2, parameters_).status().code(), absl::StatusCode::kInvalidArgument);
}

class StatelessTest : public ModelRunnerTest {
 protected:
  StatelessTest() : ModelRunnerTest(/*stateful=*/false) {}
};

TEST_F(StatelessTest, BatchesOfAnySizeStartWithZeros) {
  EXPECT_EQ(*Train({1, 2}), *Train({1, 2}));
  EXPECT_EQ(*runner_.TrainingState(3), nullptr);
  EXPECT_EQ(runner_.Evaluate(Tokens(7), 2, parameters_)->labels, 7 * kSteps);
}

TEST_F(StatelessTest, DataMustHaveTokensAndALabelForEachStep) {
  const ExpectedData expected = *ExpectedDataOf(runner_.spec());
  EXPECT_EQ(expected.vocabulary, 5);
  EXPECT_EQ(expected.classes, 5);
  EXPECT_EQ(expected.label_shape, Shape({kSteps}));
  EXPECT_EQ(expected.example_shape, Shape({kSteps}));
}

}  // namespace
}  // namespace trainyard::engine
