#include "trainer/picture/fit_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST(FitImage, ColoursBecomeGreyByTheirBrightness) {
  const Image image{.height = 1, .width = 4, .pixels = {255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 200, 200}};
  EXPECT_THAT(*FitImage(image, Shape({1, 4, 1}), ImageFit::kExact), ElementsAre(76, 150, 29, 200));
  EXPECT_THAT(*FitImage(image, Shape({1, 4}), ImageFit::kExact), ElementsAre(76, 150, 29, 200));
  EXPECT_EQ(*FitImage(image, Shape({1, 4, 3}), ImageFit::kExact), image.pixels);
}

TEST(FitImage, AnotherSizeIsRefusedWithoutResize) {
  const Image image{.height = 2, .width = 1, .pixels = {1, 1, 1, 2, 2, 2}};
  EXPECT_THAT(ErrorOf(FitImage(image, Shape({28, 28, 1}), ImageFit::kExact).status()),
              HasSubstr("the picture is 2 x 1 pixels (height x width), the model takes 28 x 28; scale it, or give --resize"));
}

TEST(FitImage, AnEvenPictureStaysEvenInEverySize) {
  const Image image{.height = 5, .width = 3, .pixels = std::vector<uint8_t>(45, 77)};
  for (const Shape& shape : {Shape({1, 1, 3}), Shape({9, 2, 3}), Shape({28, 28, 3})}) {
    EXPECT_THAT(*FitImage(image, shape, ImageFit::kStretch), Each(77));
  }
}

TEST(FitImage, HalfTheSizeIsTheMeanUnderATriangle) {
  // By hand: pixels 0, 0, 255, 255 have their middles at 0.5 … 3.5. Their shares in the left pixel
  // are 3/8, 3/8, 1/8 (and a pixel outside), so it is 255 / 7.
  const Image image{.height = 1, .width = 4, .pixels = {0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255}};
  EXPECT_THAT(*FitImage(image, Shape({1, 2, 1}), ImageFit::kStretch), ElementsAre(36, 219));
}

// What `share` of the pixel `from` counts in the pixel `to`, of as many.
double ShareOf(int from, int from_pixels, int to, int to_pixels) {
  const double ratio = static_cast<double>(from_pixels) / to_pixels;
  return std::max(0.0, 1 - std::abs(from + 0.5 - (to + 0.5) * ratio) / std::max(1.0, ratio));
}

double InterpolatedAt(const Image& image, int y, int height, int x, int width, int channel) {
  double sum = 0, shares = 0;
  for (int r = 0; r < image.height; ++r) {
    for (int c = 0; c < image.width; ++c) {
      const double share = ShareOf(r, image.height, y, height) * ShareOf(c, image.width, x, width);
      sum += share * image.pixels[(size_t{3} * r * image.width) + (size_t{3} * c) + channel];
      shares += share;
    }
  }
  return sum / shares;
}

TEST(FitImage, EverySizeIsTheLinearInterpolation) {
  std::minstd_rand random(1);
  for (const auto& [from_h, from_w, to_h, to_w] : {std::array{7, 11, 3, 4}, {7, 5, 12, 13}, {1, 9, 4, 2}, {10, 3, 3, 7}}) {
    Image image{.height = from_h, .width = from_w, .pixels = std::vector<uint8_t>(size_t{3} * from_h * from_w)};
    for (uint8_t& value : image.pixels) value = static_cast<uint8_t>(random() % 256);
    const auto scaled = FitImage(image, Shape({to_h, to_w, 3}), ImageFit::kStretch);
    ASSERT_TRUE(scaled.ok()) << scaled.status();
    for (int i = 0; i < 3 * to_h * to_w; ++i) {
      EXPECT_NEAR((*scaled)[static_cast<size_t>(i)], InterpolatedAt(image, i / 3 / to_w, to_h, i / 3 % to_w, to_w, i % 3), 0.501)
          << from_h << " x " << from_w << " to " << to_h << " x " << to_w << ", value " << i;
    }
  }
}

TEST(FitImage, ACropIsThePartFromTheMiddleInTheModelsProportions) {
  const Image wide{.height = 1, .width = 5, .pixels = {0, 0, 0, 10, 10, 10, 20, 20, 20, 30, 30, 30, 40, 40, 40}};
  EXPECT_THAT(*FitImage(wide, Shape({1, 3, 1}), ImageFit::kCrop), ElementsAre(10, 20, 30));
  const Image tall{.height = 5, .width = 1, .pixels = wide.pixels};
  EXPECT_THAT(*FitImage(tall, Shape({1, 1, 1}), ImageFit::kCrop), ElementsAre(20));
  EXPECT_THAT(*FitImage(tall, Shape({2, 2, 1}), ImageFit::kCrop), Each(20));
}

TEST(FitImage, ACropOfExtremeProportionsHasAtLeastOnePixel) {
  const Image line{.height = 1, .width = 1000, .pixels = std::vector<uint8_t>(3000, 9)};
  EXPECT_THAT(*FitImage(line, Shape({28, 1, 1}), ImageFit::kCrop), Each(9));
  EXPECT_THAT(*FitImage(line, Shape({1, 28, 1}), ImageFit::kCrop), Each(9));
}

TEST(CheckTakesImages, NamesTheModelsInput) {
  EXPECT_TRUE(CheckTakesImages(Shape({28, 28})).ok());
  EXPECT_TRUE(CheckTakesImages(Shape({32, 32, 3})).ok());
  EXPECT_THAT(ErrorOf(CheckTakesImages(Shape({784}))), HasSubstr("it is a picture, the model takes [784]"));
  EXPECT_FALSE(CheckTakesImages(Shape({8, 8, 4})).ok());
}

}  // namespace
}  // namespace trainyard::engine
