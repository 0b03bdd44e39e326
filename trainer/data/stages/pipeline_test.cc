#include "trainer/data/stages/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "trainer/data/formats/numpy_dataset.h"
#include "trainer/data/golden_data.h"
#include "trainer/data/stages/memory_cache.h"
#include "trainer/data/stages/normalize.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::unique_ptr<Dataset> Golden(const std::string& images = "x_uint8.npy", ExpectedData expected = GoldenExpected()) {
  return *OpenNumpyDataset({.images = GoldenPath(images), .labels = GoldenPath("y_int64.npy")}, expected);
}

// Counts how often each example is read.
class CountingDataset final : public Dataset {
 public:
  CountingDataset(std::unique_ptr<Dataset> inner, std::multiset<int64_t>& reads) : inner_(std::move(inner)), reads_(reads) {}
  const DatasetInfo& info() const override { return inner_->info(); }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    reads_.insert(indices.begin(), indices.end());
    return inner_->Read(indices, batch);
  }

 private:
  const std::unique_ptr<Dataset> inner_;
  std::multiset<int64_t>& reads_;
};

std::vector<std::string_view> StagesOf(const Batch& batch) {
  std::vector<std::string_view> stages;
  for (const StageSpan& span : batch.stages.spans()) stages.push_back(span.stage);
  return stages;
}

TEST(MemoryCache, ReadsEachExampleOnceAndGivesItAgain) {
  std::multiset<int64_t> reads;
  const auto cached = CachedInMemory(std::make_unique<CountingDataset>(Golden(), reads));
  ASSERT_TRUE(cached.ok()) << cached.status();
  for (const std::vector<int64_t>& indices : {std::vector<int64_t>{4, 1}, {1, 5, 4}, {0, 1, 2, 3, 4, 5}}) {
    const ReadExamples rows = ExamplesOf(**cached, indices);
    EXPECT_THAT(rows.x, Pointwise(FloatNear(1e-6F), GoldenExamples(indices, 255.0F).x));
    EXPECT_EQ(rows.labels, GoldenExamples(indices).labels);
  }
  EXPECT_THAT(reads, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(std::string(CachedInMemory(Golden(), 59).status().message()), HasSubstr("has 6 examples of 10 bytes"));
}

TEST(Normalize, AScaleReplacesTheUsualOneInWhatAModelReads) {
  const auto scaled = Normalized(Golden(), {.scale = 0.5});
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_EQ((*scaled)->info().x_scale, 1.0F) << "a model knows no other scale of bytes than 1/255";
  Batch batch;
  ASSERT_TRUE((*scaled)->Read(std::vector<int64_t>{3}, batch).ok());
  ASSERT_EQ(batch.x.dtype, DType::kF32);
  EXPECT_THAT(batch.x.values<float>(), Pointwise(FloatNear(1e-6F), GoldenExamples({3}, 2.0F).x));
}

TEST(Normalize, BytesStayBytesWithTheirUsualScale) {
  const auto same = Normalized(Golden(), {.scale = 1.0 / 255.0});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ((*same)->info().x_dtype, DType::kU8);
  EXPECT_THAT(ExamplesOf(**same, {3}).x, Pointwise(FloatNear(1e-6F), GoldenExamples({3}, 255.0F).x));
}

TEST(Normalize, MeanAndDeviationAreOneNumberOrOneForEachChannel) {
  const auto one = Normalized(Golden("x_float32.npy"), {.mean = {10}, .std = {2}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(ExamplesOf(**one, {1}).x, Pointwise(FloatNear(1e-6F), std::vector<float>{0, 0.5F, 1, 1.5F, 2, 2.5F}));
  const auto channels = Normalized(Golden("x_uint8.npy"), {.scale = 1, .mean = {10, 11, 12}, .std = {1, 2, 4}});
  ASSERT_TRUE(channels.ok()) << channels.status();
  EXPECT_THAT(ExamplesOf(**channels, {1}).x, Pointwise(FloatNear(1e-6F), std::vector<float>{0, 0, 0, 3, 1.5F, 0.75F}));
  EXPECT_THAT(std::string(Normalized(Golden(), {.mean = {1, 2}}).status().message()),
              HasSubstr("normalize.mean has 2 numbers, expected one, or one for each of the 3 channels of [2, 3]"));
}

TEST(Pipeline, StagesFollowEachOtherAndNoteTheirTime) {
  std::multiset<int64_t> reads;
  PipelineConfig config;
  config.examples = {MapConfig{.augment = {}, .normalize = {.mean = {0.5}}}, CacheConfig{}};
  const auto dataset = WithStages(std::make_unique<CountingDataset>(Golden(), reads), config, /*training=*/true, 1);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Batch batch;
  ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{1, 2}, batch).ok());
  EXPECT_THAT(StagesOf(batch), ElementsAre("read", "map", "cache", "cache"));
  batch.stages.Clear();
  ASSERT_TRUE((*dataset)->Read(std::vector<int64_t>{2, 1}, batch).ok());
  EXPECT_THAT(StagesOf(batch), ElementsAre("cache"));
  EXPECT_THAT(reads, ElementsAre(1, 2));
  EXPECT_FLOAT_EQ(batch.x.values<float>()[0], 20.0F / 255.0F - 0.5F);
}

TEST(Pipeline, AugmentationIsForTrainingOnlyAndNormalisationForBoth) {
  PipelineConfig config;
  config.examples = {MapConfig{.augment = {.flip = true, .shift = 1}, .normalize = {.scale = 1}}};
  const ExpectedData images{.example_shape = {2, 3, 1}, .classes = 3};
  const auto training = WithStages(Golden("x_uint8.npy", images), config, /*training=*/true, 1);
  const auto evaluation = WithStages(Golden("x_uint8.npy", images), config, /*training=*/false, 1);
  ASSERT_TRUE(training.ok() && evaluation.ok());
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(ExamplesOf(**evaluation, all).x, GoldenExamples(all).x);
  EXPECT_NE(ExamplesOf(**training, all).x, GoldenExamples(all).x);
  EXPECT_EQ(ExamplesOf(**training, all).x, ExamplesOf(**training, all).x);
}

TEST(Pipeline, ASecondAugmentationDrawsOtherNumbers) {
  const ExpectedData images{.example_shape = {2, 3, 1}, .classes = 3};
  PipelineConfig config;
  const MapConfig flip{.augment = {.flip = true}, .normalize = {.scale = 1}};
  config.examples = {flip, flip};
  const auto twice = WithStages(Golden("x_uint8.npy", images), config, /*training=*/true, 1);
  ASSERT_TRUE(twice.ok());
  const std::vector<int64_t> all{0, 1, 2, 3, 4, 5};
  EXPECT_NE(ExamplesOf(**twice, all).x, GoldenExamples(all).x) << "the second flip undid the first of every image";
}

}  // namespace
}  // namespace trainyard::engine
