#include "trainer/train/device_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kLong = 9000;  // more than a block of a sum

std::vector<ParameterSpec> Specs() {
  return {{.name = "w", .shape = Shape({kLong})},
          {.name = "mean", .shape = Shape({2}), .trainable = false},
          {.name = "table", .shape = Shape({5, 2})},
          {.name = "unused", .shape = Shape({1})}};
}

// More than one thread adds.
std::vector<ParameterSpec> LongSpecs() { return {{.name = "w", .shape = Shape({100'000})}, {.name = "table", .shape = Shape({2000, 64})}}; }

// What was pushed, as it was then.
class PushLog final : public Updater {
 public:
  struct Pushed {
    int key;
    int addends;
    std::vector<float> values;
    std::vector<int32_t> rows;
    bool by_rows;
  };
  void Push(int key, const GradientView& gradient, int64_t step) override {
    Pushed push{.key = key, .addends = gradient.addends, .values = {gradient.values.begin(), gradient.values.end()}};
    push.by_rows = gradient.rows.has_value();
    if (push.by_rows) push.rows.assign(gradient.rows->begin(), gradient.rows->end());
    EXPECT_EQ(step, 7);
    pushed.push_back(std::move(push));
  }
  void PushNothing(int key, int64_t /*step*/) override { nothing.push_back(key); }
  absl::StatusOr<TrainingStart> Start(ParameterSet& /*parameters*/) override { return TrainingStart{}; }
  absl::StatusOr<StepResult> Wait(ParameterSet& /*parameters*/) override { return StepResult{}; }
  absl::StatusOr<TrainingState> State(const ParameterSet& /*parameters*/) override { return TrainingState{}; }
  absl::Status Look(const ParameterSet& /*parameters*/, const std::function<absl::Status(const StateView&)>& /*use*/) override {
    return {};
  }
  absl::Status AwaitOthers(absl::Duration /*deadline*/, ParameterSet& /*parameters*/) override { return {}; }
  absl::Status End(int64_t /*step*/) override { return {}; }
  void ShowActivity() override {}
  void TellPace(WorkerPace /*pace*/) override {}
  std::vector<WorkerPace> paces() const override { return {}; }
  absl::Status AskForRollback(const std::string& /*reason*/) override { return {}; }
  absl::Status Release() override { return {}; }
  absl::Status AwaitRelease() override { return {}; }
  void Leave() override {}
  void Done() override {}
  int64_t global_step() const override { return 0; }
  int64_t bytes_sent() const override { return 0; }
  int64_t bytes_received() const override { return 0; }

  std::vector<Pushed> pushed;
  std::vector<int> nothing;
};

class DeviceSumTest : public ::testing::Test {
 protected:
  void Make(int devices, DeviceMean mean = DeviceMean::kNone) {
    gradients_.clear();
    std::vector<ParameterSet*> pointers;
    for (int device = 0; device < devices; ++device) gradients_.push_back(std::make_unique<ParameterSet>(Specs()));
    for (const auto& each : gradients_) pointers.push_back(each.get());
    sum_ = std::make_unique<DeviceSum>(updater_, std::move(pointers), mean);
  }
  void Fill(int device, int key, float value) { std::ranges::fill(gradients_[device]->values(key), value); }
  void Touch(int device, std::vector<int32_t> rows, float value) {
    std::span<float> table = gradients_[device]->values(2);
    for (const int32_t row : rows) std::ranges::fill(table.subspan(static_cast<size_t>(row) * 2, 2), value);
    gradients_[device]->touched_rows(2).Reserve(rows.size());
    gradients_[device]->touched_rows(2).Touch(rows);
  }

  PushLog updater_;
  std::vector<std::unique_ptr<ParameterSet>> gradients_;
  std::unique_ptr<DeviceSum> sum_;
};

TEST_F(DeviceSumTest, DevicesAreAddedInTreeOrderWhoeverIsReadyLast) {
  const std::vector<float> values = {1e8F, 1.0F, -1e8F, 9.0F, 5.0F};
  Make(5);
  for (int device = 0; device < 5; ++device) Fill(device, 0, values[device]);
  sum_->Begin(7, std::vector<bool>(5, true));
  for (int device = 0; device < 5; ++device) {
    EXPECT_THAT(updater_.pushed, IsEmpty()) << "device " << device << " is missing";
    sum_->Ready(0);
  }
  ASSERT_EQ(updater_.pushed.size(), 1U);
  EXPECT_THAT(updater_.pushed[0].values, Each(((1e8F + 1.0F) + (-1e8F + 9.0F)) + 5.0F))
      << "in the order of devices 1e8 swallows the first 1";
  EXPECT_EQ(updater_.pushed[0].addends, 5);
}

TEST_F(DeviceSumTest, SumsThatAreMadeAtTheEndHaveTheSameBitsForAnyNumberOfThreads) {
  ParameterSet expected(LongSpecs());
  for (const int threads : {0, 1, 3}) {
    std::vector<ParameterSet> gradients;
    std::vector<ParameterSet*> pointers;
    for (int device = 0; device < 3; ++device) gradients.emplace_back(LongSpecs());
    for (ParameterSet& each : gradients) pointers.push_back(&each);
    for (int device = 0; device < 3; ++device) {
      for (int key = 0; key < 2; ++key) {
        const std::span<float> values = gradients[device].values(key);
        for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0F / static_cast<float>(i % 1000 + device * 7 + 1);
      }
      std::vector<int32_t> rows(1500 + device);
      std::ranges::generate(rows, [row = device]() mutable { return row++; });
      gradients[device].touched_rows(1).Reserve(rows.size());
      gradients[device].touched_rows(1).Touch(rows);
    }
    std::optional<ThreadPool> pool;
    if (threads > 0) pool.emplace(threads);
    PushLog log;
    DeviceSum sum(log, std::move(pointers), DeviceMean::kOfDevices, pool ? &*pool : nullptr);
    sum.Begin(7, {true, true, true});
    for (int device = 0; device < 3; ++device) {
      for (const int key : {1, 0}) sum.Ready(key);
    }
    EXPECT_EQ(log.pushed.size(), threads > 0 ? 0U : 2U);
    sum.End();
    ASSERT_EQ(log.pushed.size(), 2U);
    EXPECT_EQ(log.pushed[0].key, 1) << "in the order in which they were announced";
    for (const PushLog::Pushed& push : log.pushed) {
      if (threads == 0) std::ranges::copy(push.values, expected.values(push.key).begin());
      EXPECT_TRUE(std::ranges::equal(push.values, expected.values(push.key))) << threads << " threads, key " << push.key;
    }
  }
}

TEST_F(DeviceSumTest, ADeviceWithoutExamplesAddsNothingAndIsNotWaitedFor) {
  Make(4);
  Fill(0, 0, 100.0F);  // of the step before
  Fill(1, 0, 1e8F);
  Fill(2, 0, -1e8F);
  Fill(3, 0, 9.0F);
  sum_->Begin(7, {false, true, true, true});
  for (int device = 1; device < 4; ++device) sum_->Ready(0);
  ASSERT_EQ(updater_.pushed.size(), 1U);
  EXPECT_THAT(updater_.pushed[0].values, Each(1e8F + (-1e8F + 9.0F)));
  EXPECT_EQ(updater_.pushed[0].addends, 3);
  sum_->End();
  EXPECT_THAT(updater_.nothing, ElementsAre(1, 2, 3));
}

TEST_F(DeviceSumTest, WithoutAnExampleOnAnyDeviceNothingIsPushedOfEveryKey) {
  Make(2);
  sum_->Begin(7, {false, false});
  sum_->End();
  EXPECT_THAT(updater_.pushed, IsEmpty());
  EXPECT_THAT(updater_.nothing, ElementsAre(0, 1, 2, 3));
}

TEST_F(DeviceSumTest, WhereNobodyAddsMoreGradientsAreMeansOfAllDevicesAndNextValuesOfThoseWithExamples) {
  Make(3, DeviceMean::kOfDevices);
  for (const int device : {0, 2}) {
    Fill(device, 0, 3.0F);
    Fill(device, 1, 4.0F + static_cast<float>(device));
  }
  sum_->Begin(7, {true, false, true});
  for (const int key : {0, 0, 1, 1}) sum_->Ready(key);
  ASSERT_EQ(updater_.pushed.size(), 2U);
  EXPECT_THAT(updater_.pushed[0].values, Each(2.0F));
  EXPECT_THAT(updater_.pushed[1].values, Each(5.0F));
  EXPECT_EQ(updater_.pushed[0].addends, 1) << "as one device";
}

TEST_F(DeviceSumTest, OneDeviceIsPushedAsItIs) {
  Make(1);
  Fill(0, 0, -0.0F);
  sum_->Begin(7, {true});
  sum_->Ready(0);
  ASSERT_EQ(updater_.pushed.size(), 1U);
  EXPECT_TRUE(std::ranges::all_of(updater_.pushed[0].values, [](float value) { return std::signbit(value); }));
}

TEST_F(DeviceSumTest, TheRowsOfASumAreThoseOfAllDevices) {
  Make(2);
  for (int step = 0; step < 2; ++step) {  // its rows lie where the first device keeps its own
    updater_.pushed.clear();
    std::ranges::fill(gradients_[0]->values(2), 0.0F);
    Touch(0, {3, 1}, 1.0F);
    Touch(1, {1, 4}, 2.0F);
    sum_->Begin(7, {true, true});
    sum_->Ready(2);
    sum_->Ready(2);
    ASSERT_EQ(updater_.pushed.size(), 1U);
    EXPECT_TRUE(updater_.pushed[0].by_rows);
    EXPECT_THAT(updater_.pushed[0].rows, ElementsAre(1, 3, 4));
    EXPECT_THAT(updater_.pushed[0].values, ElementsAre(0, 0, 3, 3, 0, 0, 1, 1, 2, 2));
    EXPECT_THAT(gradients_[0]->touched_rows(2).ids(), ElementsAre(1, 3, 4)) << "the next backward clears them";
  }
  updater_.pushed.clear();
  gradients_[1]->touched_rows(2).SetAll();
  sum_->Begin(7, {true, true});
  sum_->Ready(2);
  sum_->Ready(2);
  EXPECT_FALSE(updater_.pushed[0].by_rows);
}

TEST_F(DeviceSumTest, ThreadsThatAnnounceInOneOrderPushInThatOrder) {
  constexpr int kDevices = 4;
  Make(kDevices);
  for (int round = 0; round < 50; ++round) {
    updater_.pushed.clear();
    for (int device = 0; device < kDevices; ++device) {
      Fill(device, 0, 1.0F);
      Fill(device, 1, 1.0F);
      Fill(device, 3, 1.0F);
    }
    sum_->Begin(7, std::vector<bool>(kDevices, true));
    std::vector<std::thread> threads;
    for (int device = 0; device < kDevices; ++device) {
      threads.emplace_back([this] {
        for (const int key : {3, 1, 0}) sum_->Ready(key);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(updater_.pushed.size(), 3U);
    EXPECT_EQ(updater_.pushed[0].key, 3);
    EXPECT_EQ(updater_.pushed[1].key, 1);
    EXPECT_EQ(updater_.pushed[2].key, 0);
    for (const PushLog::Pushed& push : updater_.pushed) EXPECT_THAT(push.values, Each(4.0F));
  }
}

}  // namespace
}  // namespace trainyard::engine
