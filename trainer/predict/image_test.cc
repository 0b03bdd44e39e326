#include "trainer/predict/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "trainer/report/png.h"

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Png(int height, int width, int channels, std::vector<uint8_t> pixels) {
  return *EncodePng({.height = height, .width = width, .channels = channels, .pixels = pixels});
}

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST(DecodePng, AGreyPictureHasThreeEqualChannels) {
  const auto image = DecodePng(Png(1, 2, 1, {0, 200}));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 1);
  EXPECT_EQ(image->width, 2);
  EXPECT_THAT(image->pixels, ElementsAre(0, 0, 0, 200, 200, 200));
}

TEST(DecodePng, TransparentPixelsAreRefused) {
  EXPECT_THAT(ErrorOf(DecodePng(Png(1, 1, 4, {1, 2, 3, 254})).status()), HasSubstr("has transparent pixels, expected an opaque picture"));
  EXPECT_THAT(DecodePng(Png(1, 1, 4, {1, 2, 3, 255}))->pixels, ElementsAre(1, 2, 3));
}

TEST(DecodePng, EveryCutPictureIsAnError) {
  std::vector<uint8_t> pixels(28 * 28);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7919);
  const std::string png = Png(28, 28, 1, pixels);
  for (size_t size = 0; size + 20 < png.size(); size += 13) {
    EXPECT_EQ(DecodePng(png.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST(DecodePng, APictureThatPromisesTooMuchIsRefusedBeforeItIsDecoded) {
  std::string png = Png(1, 1, 1, {0});
  png[16] = 0;  // the width: 0x00010000
  png[17] = 1;
  png[18] = 0;
  png[19] = 0;
  // The header's checksum is that of another width: libpng may refuse that first.
  EXPECT_FALSE(DecodePng(png).ok());
}

TEST(FitImage, ColoursBecomeGreyByTheirBrightness) {
  const Image image{.height = 1, .width = 4, .pixels = {255, 0, 0, 0, 255, 0, 0, 0, 255, 200, 200, 200}};
  EXPECT_THAT(*FitImage(image, Shape({1, 4, 1}), false), ElementsAre(76, 150, 29, 200));
  EXPECT_THAT(*FitImage(image, Shape({1, 4}), false), ElementsAre(76, 150, 29, 200));
  EXPECT_EQ(*FitImage(image, Shape({1, 4, 3}), false), image.pixels);
}

TEST(FitImage, AnotherSizeIsRefusedWithoutResize) {
  const Image image{.height = 2, .width = 1, .pixels = {1, 1, 1, 2, 2, 2}};
  EXPECT_THAT(ErrorOf(FitImage(image, Shape({28, 28, 1}), false).status()),
              HasSubstr("the picture is 2 x 1 pixels (height x width), the model takes 28 x 28; scale it, or give --resize"));
}

TEST(FitImage, AnEvenPictureStaysEvenInEverySize) {
  const Image image{.height = 5, .width = 3, .pixels = std::vector<uint8_t>(45, 77)};
  for (const Shape& shape : {Shape({1, 1, 3}), Shape({9, 2, 3}), Shape({28, 28, 3})}) {
    EXPECT_THAT(*FitImage(image, shape, true), Each(77));
  }
}

TEST(FitImage, HalfTheSizeIsTheMeanUnderATriangle) {
  // By hand, of pixels 0, 0, 255, 255 at middles 0.5 … 3.5: shares of the left one 3/8, 3/8, 1/8 (and a pixel outside), so 255 / 7.
  const Image image{.height = 1, .width = 4, .pixels = {0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255}};
  EXPECT_THAT(*FitImage(image, Shape({1, 2, 1}), true), ElementsAre(36, 219));
}

TEST(CheckTakesImages, NamesTheModelsInput) {
  EXPECT_TRUE(CheckTakesImages(Shape({28, 28})).ok());
  EXPECT_TRUE(CheckTakesImages(Shape({32, 32, 3})).ok());
  EXPECT_THAT(ErrorOf(CheckTakesImages(Shape({784}))), HasSubstr("it is a picture, the model takes [784]"));
  EXPECT_FALSE(CheckTakesImages(Shape({8, 8, 4})).ok());
}

}  // namespace
}  // namespace trainyard::engine
