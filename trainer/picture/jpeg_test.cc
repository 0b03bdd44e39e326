#include "trainer/picture/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "trainer/picture/exif_orientation.h"
#include "trainer/picture/test_jpeg.h"

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint8_t> Noise(size_t count) {
  std::vector<uint8_t> pixels(count);
  for (size_t i = 0; i < count; ++i) pixels[i] = static_cast<uint8_t>(i * i * 31 + i * 7);
  return pixels;
}

std::string JpegErrorOf(const std::string& bytes) { return std::string(DecodeJpeg(bytes).status().message()); }

TEST(DecodeJpeg, AGreyPictureHasThreeEqualChannels) {
  const auto image = DecodeJpeg(TestJpeg{.height = 5, .width = 9, .channels = 1, .pixels = std::vector<uint8_t>(45, 90)}.Make());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 5);
  EXPECT_EQ(image->width, 9);
  EXPECT_THAT(image->pixels, Each(90));
  EXPECT_EQ(image->pixels.size(), 135);
}

TEST(DecodeJpeg, ColoursKeepTheirOrderBaselineOrProgressive) {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 64; ++i) pixels.insert(pixels.end(), {200, 100, 20});
  for (const bool progressive : {false, true}) {
    const auto image = DecodeJpeg(TestJpeg{.pixels = pixels, .progressive = progressive}.Make());
    ASSERT_TRUE(image.ok()) << image.status();
    for (size_t i = 0; i < pixels.size(); ++i) EXPECT_LE(std::abs(image->pixels[i] - pixels[i]), 3);
  }
}

TEST(DecodeJpeg, EveryCutPictureIsAnError) {
  for (const bool progressive : {false, true}) {
    const std::string jpeg = TestJpeg{.height = 32, .width = 32, .pixels = Noise(32 * 32 * 3), .progressive = progressive}.Make();
    ASSERT_TRUE(DecodeJpeg(jpeg).ok());
    for (size_t size = 3; size + 2 < jpeg.size(); size += 37) {
      EXPECT_EQ(DecodeJpeg(jpeg.substr(0, size)).status().code(), absl::StatusCode::kDataLoss) << size << " of " << jpeg.size();
    }
  }
}

TEST(DecodeJpeg, APictureThatPromisesTooMuchIsRefusedBeforeItIsDecoded) {
  std::string jpeg = TestJpeg{.pixels = Noise(192)}.Make();
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg[frame + 5] = static_cast<char>(60000 >> 8);  // height, then width
  jpeg[frame + 6] = static_cast<char>(60000 & 0xff);
  jpeg[frame + 7] = jpeg[frame + 5];
  jpeg[frame + 8] = jpeg[frame + 6];
  EXPECT_THAT(JpegErrorOf(jpeg), HasSubstr("the JPEG has 60000 x 60000 pixels (height x width), at most 16384 a side"));
}

TEST(DecodeJpeg, CmykColoursAreRefused) {
  EXPECT_THAT(JpegErrorOf(TestJpeg{.channels = 4, .pixels = Noise(256)}.Make()), HasSubstr("has CMYK colours, expected grey or RGB"));
}

TEST(DecodeJpeg, APictureIsTurnedAsItsCameraWasHeld) {
  // Left half dark, right half bright, and lying: 16 x 8.
  std::vector<uint8_t> pixels;
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 16; ++x) pixels.push_back(x < 8 ? 0 : 255);
  }
  const auto image = DecodeJpeg(TestJpeg{.height = 8, .width = 16, .channels = 1, .pixels = pixels, .app1 = ExifOf(6)}.Make());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 16);
  EXPECT_EQ(image->width, 8);
  EXPECT_LT(image->pixels.front(), 10);
  EXPECT_GT(image->pixels.back(), 245);
}

// Of a picture of two rows, a b c over d e f, each orientation as EXIF's table has it.
TEST(Upright, EveryOrientationIsUndone) {
  const auto turned = [](int orientation) {
    Image image{.height = 2, .width = 3, .pixels = {}};
    for (const char c : std::string("abcdef")) image.pixels.insert(image.pixels.end(), 3, static_cast<uint8_t>(c));
    const Image upright = Upright(image, orientation);
    std::string rows;
    for (int y = 0; y < upright.height; ++y) {
      for (int x = 0; x < upright.width; ++x) rows += static_cast<char>(upright.pixels[static_cast<size_t>(y * upright.width + x) * 3]);
      rows += '/';
    }
    return rows;
  };
  std::vector<std::string> all;
  for (int orientation = 1; orientation <= 8; ++orientation) all.push_back(turned(orientation));
  EXPECT_THAT(all, ElementsAre("abc/def/", "cba/fed/", "fed/cba/", "def/abc/", "ad/be/cf/", "da/eb/fc/", "fc/eb/da/", "cf/be/ad/"));
}

int OrientationIn(const std::string& app1) { return ExifOrientation({reinterpret_cast<const uint8_t*>(app1.data()), app1.size()}); }

TEST(ExifOrientation, ReadsBothByteOrders) {
  using namespace std::string_literals;
  EXPECT_EQ(OrientationIn(ExifOf(6)), 6);
  EXPECT_EQ(OrientationIn("Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0"s), 8);
}

// Cameras write it behind their names, and other entries behind it.
TEST(ExifOrientation, IsFoundAmongOtherEntries) {
  using namespace std::string_literals;
  const std::string model = "\x01\x10\0\x02\0\0\0\x04yard"s;
  const std::string unit = "\x01\x28\0\x03\0\0\0\x01\0\x02\0\0"s;
  const std::string orientation = "\x01\x12\0\x03\0\0\0\x01\0\x03\0\0"s;
  const auto directory = [](char entries) { return "Exif\0\0MM\0\x2a\0\0\0\x08\0"s + entries; };
  EXPECT_EQ(OrientationIn(directory(4) + model + model + orientation + unit), 3);
  EXPECT_EQ(OrientationIn(directory(3) + unit + unit + orientation), 3);
  EXPECT_EQ(OrientationIn(directory(2) + unit + unit + orientation), 1) << "behind the directory";
}

TEST(ExifOrientation, DamageMeansUpright) {
  EXPECT_EQ(OrientationIn(""), 1);
  EXPECT_EQ(OrientationIn(ExifOf(0)), 1);
  EXPECT_EQ(OrientationIn(ExifOf(9)), 1);
  const std::string whole = ExifOf(6);
  for (size_t size = 0; size < 24; ++size) EXPECT_EQ(OrientationIn(whole.substr(0, size)), 1) << size;
  std::string far = whole;
  for (size_t i = 10; i < 14; ++i) far[i] = '\xff';  // the place of the directory
  EXPECT_EQ(OrientationIn(far), 1);
}

}  // namespace
}  // namespace trainyard::engine
