#include "trainer/train/device_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/base/clock.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAreArray;

// The label of an example is its number. Reading one from `broken` on fails.
class NumberedExamples final : public Dataset {
 public:
  NumberedExamples(int64_t examples, int64_t broken) : info_{.name = "numbers", .examples = examples}, broken_(broken) {}
  const DatasetInfo& info() const override { return info_; }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), DType::kF32, Shape({1}), DType::kI32, Shape());
    std::ranges::transform(indices, batch.y.values<int32_t>().begin(), [](int64_t index) { return static_cast<int32_t>(index); });
    const bool fails = std::ranges::any_of(indices, [this](int64_t index) { return index >= broken_; });
    return fails ? absl::DataLossError("a broken example") : absl::OkStatus();
  }

 private:
  const DatasetInfo info_;
  const int64_t broken_;
};

// Two devices of worker 1, of two workers with batches of 2.
class DeviceBatchesTest : public ::testing::Test {
 protected:
  static constexpr int64_t kExamples = 21;

  DeviceBatchesTest() {
    for (const int rank : {2, 3}) devices_.push_back(std::make_unique<Device>(rank, ModelSpec(), *backend_, NoSpecs(), SamplerOf(rank)));
  }
  static std::vector<ParameterSpec> NoSpecs() { return {}; }
  static Sampler SamplerOf(int rank) {
    return *Sampler::Create({.examples = kExamples, .batch_size = 2, .workers = 4, .worker = rank, .order = {.files = {}, .seed = 3}});
  }

  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::vector<std::unique_ptr<Device>> devices_;
};

TEST_F(DeviceBatchesTest, EachDeviceGetsTheExamplesOfItsRankInEveryStep) {
  const NumberedExamples data(kExamples, /*broken=*/kExamples);
  const int64_t steps = SamplerOf(0).StepsUntilEpoch(2);
  DeviceBatches input(data, devices_, {.first_step = 1, .end_step = steps}, RealClock());
  for (int64_t step = 1; step < steps; ++step) {
    const absl::StatusOr<BatchesOfStep> batches = input.Next(absl::Seconds(30));
    ASSERT_TRUE(batches.ok()) << batches.status();
    ASSERT_EQ(batches->size(), 2U);
    int64_t examples = 0;
    for (const size_t device : {0U, 1U}) {
      Sampler sampler = SamplerOf(2 + static_cast<int>(device));
      std::vector<int64_t> expected;
      sampler.Indices(sampler.At(step), expected);
      const Batch& batch = *(*batches)[device];
      ASSERT_EQ(batch.examples, static_cast<int64_t>(expected.size()));
      if (batch.examples > 0) {
        EXPECT_THAT(batch.y.values<const int32_t>(), ElementsAreArray(expected));
      }
      EXPECT_EQ(batch.step, step);
      examples += batch.examples;
    }
    EXPECT_EQ(ExamplesOf(*batches), examples);
  }
}

TEST_F(DeviceBatchesTest, WhatOneDeviceCannotReadIsTheErrorOfTheStep) {
  const NumberedExamples data(kExamples, /*broken=*/0);
  DeviceBatches input(data, devices_, {.first_step = 0, .end_step = 3}, RealClock());
  EXPECT_TRUE(absl::IsDataLoss(input.Next(absl::Seconds(30)).status()));
}

}  // namespace
}  // namespace trainyard::engine
