// An embedding's gradient lives in its set from step to step: kernels clear and fill only the rows
// that tokens name, and list them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kRows = 9;
constexpr int64_t kWidth = 5;

// The mean of squares of the embedded tokens [samples, 3] against a target.
struct Network {
  explicit Network(int64_t samples, Backend& backend) : ids(samples * 3), shape({samples, 3}) {
    const Value tokens = trial.Labels("ids", shape, kRows);
    trial.MeanSquaredLoss(*trial.builder().Embedding("embedding", tokens, trial.Parameter("table", {kRows, kWidth})));
    executor = *Executor::Create(trial.builder().graph(), backend, {.fuse = false});
  }
  void Run(const std::vector<int32_t>& tokens, ParameterSet& grads) {
    ids = tokens;
    std::vector<Feed> feeds = trial.feeds();
    for (Feed& feed : feeds) {
      if (feed.name == "ids") feed.tensor = {DType::kI32, shape, ids.data()};
    }
    const absl::Status status = executor->Run({}, feeds, trial.parameters(), &grads, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  ParameterSet NewGradients() const {
    const ParameterSet parameters = trial.parameters();
    return ParameterSet({parameters.specs().begin(), parameters.specs().end()});
  }

  Trial trial;
  std::vector<int32_t> ids;
  Shape shape;
  std::unique_ptr<Executor> executor;
};

void ExpectListsThatHold(Backend& backend) {
  Network small(2, backend);
  Network large(4, backend);
  ParameterSet grads = small.NewGradients();
  std::ranges::fill(grads.values(0), 7.0F);  // left over by a writer that kept no list
  const auto expect_as_fresh = [&](Network& network, const std::vector<int32_t>& tokens) {
    network.Run(tokens, grads);
    ParameterSet fresh = network.NewGradients();
    network.Run(tokens, fresh);
    EXPECT_TRUE(std::ranges::equal(grads.values(0), fresh.values(0)));
    ASSERT_FALSE(grads.touched_rows(0).all());
    for (int32_t row = 0; row < kRows; ++row) {
      const bool zero = std::ranges::all_of(grads.values(0).subspan(row * kWidth, kWidth), [](float value) { return value == 0; });
      EXPECT_EQ(zero, std::ranges::count(tokens, row) == 0) << row;
    }
  };
  expect_as_fresh(small, {4, 1, 4, 4, 8, 0});
  EXPECT_THAT(grads.touched_rows(0).ids(), ElementsAre(0, 1, 4, 8));
  expect_as_fresh(large, {2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 2});
  EXPECT_THAT(grads.touched_rows(0).ids(), ElementsAre(2, 3));
  expect_as_fresh(small, {7, 7, 7, 7, 7, 7});
  EXPECT_THAT(grads.touched_rows(0).ids(), ElementsAre(7));
}

TEST(RowGradient, OnTheReferenceBackendHoldsNothingOfEarlierSteps) { ExpectListsThatHold(*MakeReferenceBackend(DType::kF32)); }

TEST(RowGradient, OnTheCpuBackendHoldsNothingOfEarlierSteps) {
  for (const int threads : {1, 2}) ExpectListsThatHold(**MakeCpuBackend({.threads = threads}));
}

TEST(RowGradient, OfABackendThatKeepsGradientsElsewhereMayTouchEveryRow) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend(DType::kF64);
  Network network(2, *backend);
  ParameterSet grads = network.NewGradients();
  network.Run({4, 1, 4, 4, 8, 0}, grads);
  EXPECT_TRUE(grads.touched_rows(0).all());
}

TEST(RowGradient, OfATableWithAPenaltyTouchesEveryRow) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend(DType::kF32);
  Trial trial;
  const Value table = trial.Parameter("table", {kRows, kWidth});
  const Value embedded = *trial.builder().Embedding("embedding", trial.Labels("ids", {2, 3}, 3), table);
  const Value loss = *trial.builder().MeanSquaredError("mse", embedded, trial.Input("target", {2, 3, kWidth}));
  trial.Loss(*trial.builder().L2Penalty("loss", loss, std::array{table}, 0.1F));
  const absl::StatusOr<TrialResult> result = trial.Run(*backend, /*fuse=*/false);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->grads.touched_rows(0).all());
  EXPECT_NE(result->grads.values(0)[(kRows - 1) * kWidth], 0.0F);
}

}  // namespace
}  // namespace trainyard::engine
