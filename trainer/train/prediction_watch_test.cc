#include "trainer/train/prediction_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

// Pictures of `side` x `side` pixels, of which example n is `n` everywhere, and labels n % 2.
class Greys : public Dataset {
 public:
  explicit Greys(int64_t side, int64_t examples) : side_(side) {
    info_.examples = examples;
    info_.example_shape = {side, side, 1};
    info_.x_dtype = DType::kU8;
    info_.y_dtype = DType::kI32;
  }
  const DatasetInfo& info() const override { return info_; }
  absl::Status Read(std::span<const int64_t> indices, Batch& batch) const override {
    batch.Resize(static_cast<int64_t>(indices.size()), DType::kU8, info_.example_shape, DType::kI32, {});
    batch.x_scale = 1.0F / 255;
    for (size_t i = 0; i < indices.size(); ++i) {
      const auto pixels = batch.x.values<uint8_t>().subspan(i * static_cast<size_t>(side_ * side_), static_cast<size_t>(side_ * side_));
      std::ranges::fill(pixels, static_cast<uint8_t>(indices[i]));
      batch.y.values<int32_t>()[i] = static_cast<int32_t>(indices[i] % 2);
    }
    return absl::OkStatus();
  }

 private:
  const int64_t side_;
  DatasetInfo info_;
};

// A model that says 0 of everything, the surer the brighter the picture is.
class PredictionWatchTest : public ::testing::Test {
 protected:
  PredictionWatch Watch(int64_t side, int64_t examples) {
    FieldErrors errors;
    const ModelSpec spec = ParseModelSpec(
        {{"input", {{"shape", {side, side, 1}}}}, {"layers", {"flatten", {{"dense", {{"units", 2}}}}}}, {"loss", "softmaxCrossEntropy"}},
        "model", errors);
    EXPECT_TRUE(errors.empty()) << errors.ToStatus("model");
    ModelRunner runner(spec, *backend_);
    ParameterSet parameters(*ParameterSpecsOf(spec));
    for (int key = 0; key < parameters.size(); ++key) {
      const bool kernel = parameters.spec(key).shape.rank() == 2;
      for (size_t i = 0; i < parameters.values(key).size(); ++i) parameters.values(key)[i] = kernel && i % 2 == 0 ? 0.01F : 0.0F;
    }
    std::optional<PredictionWatch> watch = PredictionWatch::For(*ExpectedDataOf(spec));
    EXPECT_TRUE(watch.has_value());
    const auto score = runner.Evaluate(Greys(side, examples), 16, parameters, watch->Seen());
    EXPECT_TRUE(score.ok()) << score.status();
    return *watch;
  }
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

TEST_F(PredictionWatchTest, CountsAllExamplesAndKeepsTheSurestMistakes) {
  const PredictionWatch watch = Watch(4, 100);
  EXPECT_EQ(watch.matrix().cell(0, 0), 50);
  EXPECT_EQ(watch.matrix().cell(1, 0), 50);
  ASSERT_EQ(watch.mistakes().size(), PredictionWatch::kMostMistakes);
  int brightness = 99;
  for (const Mistake& mistake : watch.mistakes()) {
    EXPECT_EQ(mistake.label, 1);
    EXPECT_EQ(mistake.predicted, 0);
    EXPECT_EQ(mistake.image.pixels, std::vector<uint8_t>(4 * 4 * 3, static_cast<uint8_t>(brightness)));
    brightness -= 2;
  }
}

TEST_F(PredictionWatchTest, ScalesLargePicturesDown) {
  const PredictionWatch watch = Watch(100, 2);
  ASSERT_EQ(watch.mistakes().size(), 1U);
  EXPECT_EQ(watch.mistakes()[0].image.height, PredictionWatch::kMostSide);
  EXPECT_EQ(watch.mistakes()[0].image.pixels.size(), size_t{64 * 64 * 3});
}

TEST(PredictionWatch, ExamplesWithoutAClassOfTheirOwnAreNotWatched) {
  EXPECT_FALSE(PredictionWatch::For({.classes = 0}).has_value());
  EXPECT_FALSE(PredictionWatch::For({.classes = 5, .label_shape = {3}}).has_value());
}

}  // namespace
}  // namespace trainyard::engine
