#include "trainer/checkpoint/carried_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "trainer/base/file.h"

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

ParameterSet State(float value, int64_t rows = 2) {
  ParameterSet state({{"lstm1/h", Shape({rows, 3})}, {"lstm1/c", Shape({rows, 3})}});
  for (int i = 0; i < state.size(); ++i) std::ranges::fill(state.values(i), value);
  return state;
}

class WorkerStateTest : public ::testing::Test {
 protected:
  WorkerStateTest() : dir_(testing::TempDir() + "worker_state_" + testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(dir_);
  }
  ~WorkerStateTest() override { std::filesystem::remove_all(dir_); }

  absl::Status Load(int64_t step, const std::string& place = "here") {
    loaded_ = State(0);
    return store_.Load(step, place, loaded_);
  }

  const std::string dir_;
  const WorkerStateStore store_{dir_, 1, 2};
  ParameterSet loaded_;
};

TEST_F(WorkerStateTest, StateOfAStepComesBack) {
  ASSERT_TRUE(store_.Save(10, "here", State(1)).ok());
  ASSERT_TRUE(store_.Save(20, "here", State(2)).ok());
  ASSERT_TRUE(Load(10).ok());
  EXPECT_THAT(loaded_.values(1), Each(1.0F));
  ASSERT_TRUE(Load(20).ok());
  EXPECT_THAT(loaded_.values(0), Each(2.0F));
}

TEST_F(WorkerStateTest, OnlyTheNewestStay) {
  for (const int step : {10, 20, 30}) ASSERT_TRUE(store_.Save(step, "here", State(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(Load(10)));
  EXPECT_TRUE(Load(20).ok());
  ASSERT_TRUE(store_.Save(15, "here", State(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(Load(20))) << "of a line of training that was given up";
}

TEST_F(WorkerStateTest, StateOfAnotherPlaceIsRefused) {
  ASSERT_TRUE(store_.Save(10, "epoch 0, example 8", State(1)).ok());
  const absl::Status status = Load(10, "epoch 0, example 9");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-10.safetensors is of epoch 0, example 8, expected epoch 0, example 9"));
}

TEST_F(WorkerStateTest, AStateThatDoesNotFitOrIsTornIsNamed) {
  ASSERT_TRUE(store_.Save(10, "here", State(1, 5)).ok());
  EXPECT_THAT(std::string(Load(10).message()), HasSubstr("tensor 'lstm1/h' is F32 [5, 3], the model has F32 [2, 3]"));
  ASSERT_TRUE(WriteFileDurably(dir_ + "/state-worker-1/step-11.safetensors", "torn").ok());
  EXPECT_THAT(std::string(Load(11).message()), HasSubstr("step-11.safetensors"));
}

TEST(StatePlace, TellsEverythingThatMovesTheTextAroundARow) {
  const SamplerOptions options{.examples = 100, .stream_steps = 3, .batch_size = 4, .workers = 2, .worker = 1};
  const std::string place = StatePlace(options, {.epoch = 1, .offset = 8});
  EXPECT_EQ(place, "epoch 1, example 8 of 100, worker 1 of 2, 4 rows of 3 steps");
  SamplerOptions other = options;
  other.workers = 3;
  EXPECT_NE(StatePlace(other, {.epoch = 1, .offset = 8}), place);
}

}  // namespace
}  // namespace trainyard::engine
