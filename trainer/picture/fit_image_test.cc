#include "trainer/picture/fit_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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
