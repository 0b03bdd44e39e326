#include "trainer/picture/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<uint8_t> Decode(const std::string& bytes, png_uint_32 format) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0) << image.message;
  image.format = format;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr), 0) << image.message;
  return pixels;
}

std::string Png(int height, int width, int channels, std::vector<uint8_t> pixels) {
  return *EncodePng({.height = height, .width = width, .channels = channels, .pixels = pixels});
}

TEST(Png, PixelsComeBackForEveryNumberOfChannels) {
  using Case = std::pair<int, png_uint_32>;
  for (auto [channels, format] : {Case(1, PNG_FORMAT_GRAY), Case(3, PNG_FORMAT_RGB), Case(4, PNG_FORMAT_RGBA)}) {
    std::vector<uint8_t> pixels(size_t{3} * 5 * channels);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(4 * i);
    auto bytes = EncodePng({.height = 3, .width = 5, .channels = channels, .pixels = pixels});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(Decode(*bytes, format), pixels);
  }
}

TEST(Png, WhatDoesNotFitTogetherIsRefused) {
  const std::vector<uint8_t> pixels(4);
  const auto error = [&](int height, int width, int channels) {
    return std::string(EncodePng({.height = height, .width = width, .channels = channels, .pixels = pixels}).status().message());
  };
  EXPECT_THAT(error(2, 2, 2), HasSubstr("has 2 channels, expected 1, 3 or 4"));
  EXPECT_THAT(error(0, 2, 1), HasSubstr("0 x 2 pixels"));
  EXPECT_THAT(error(2, 3, 1), HasSubstr("2 x 3 x 1 needs 6 bytes, it has 4"));
}

TEST(DecodePng, AGreyPictureHasThreeEqualChannels) {
  const auto image = DecodePng(Png(1, 2, 1, {0, 200}));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->height, 1);
  EXPECT_EQ(image->width, 2);
  EXPECT_THAT(image->pixels, ElementsAre(0, 0, 0, 200, 200, 200));
}

TEST(DecodePng, TransparentPixelsAreRefused) {
  EXPECT_THAT(std::string(DecodePng(Png(1, 1, 4, {1, 2, 3, 254})).status().message()),
              HasSubstr("has transparent pixels, expected an opaque picture"));
  EXPECT_THAT(DecodePng(Png(2, 2, 4, {1, 2, 3, 255, 4, 5, 6, 255, 7, 8, 9, 255, 10, 11, 12, 255}))->pixels,
              ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
  EXPECT_FALSE(DecodePng(Png(2, 2, 4, {1, 2, 3, 255, 4, 5, 6, 255, 7, 8, 9, 255, 10, 11, 12, 0})).ok());
}

// A grey picture of 1 x 2 pixels, written by libpng itself. `mark` sets more of its header.
template <typename Mark>
std::string GreyPng(int bits, const std::vector<uint8_t>& row, const Mark& mark) {
  std::string bytes;
  png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(writer);
  png_set_write_fn(
      writer, &bytes,
      [](png_structp to, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(writer, info, 2, 1, bits, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  mark(writer, info);
  png_write_info(writer, info);
  png_write_row(writer, row.data());
  png_write_end(writer, info);
  png_destroy_write_struct(&writer, &info);
  return bytes;
}

// The pixels are 10 and 20; one grey stands for transparent pixels.
std::string PngWhereTransparentIs(png_uint_16 grey) {
  return GreyPng(8, {10, 20}, [grey](png_structp writer, png_infop info) {
    png_color_16 transparent{};
    transparent.gray = grey;
    png_set_tRNS(writer, info, nullptr, 0, &transparent);
  });
}

TEST(DecodePng, SixteenBitsBecomeEightOfTheSameBrightness) {
  const auto image = DecodePng(GreyPng(16, {0x80, 0x00, 0xff, 0xff}, [](png_structp, png_infop) {}));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->pixels, ElementsAre(128, 128, 128, 255, 255, 255));
}

TEST(DecodePng, TheFilesGammaChangesNothing) {
  const auto image = DecodePng(GreyPng(8, {128, 10}, [](png_structp writer, png_infop info) { png_set_gAMA(writer, info, 1.0); }));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->pixels, ElementsAre(128, 128, 128, 10, 10, 10)) << "as Pillow, torchvision and TensorFlow read it";
}

TEST(DecodePng, AColourThatStandsForTransparentPixelsIsRefusedWhereAPixelHasIt) {
  EXPECT_THAT(std::string(DecodePng(PngWhereTransparentIs(20)).status().message()), HasSubstr("has transparent pixels"));
  const auto opaque = DecodePng(PngWhereTransparentIs(30));
  ASSERT_TRUE(opaque.ok()) << opaque.status();
  EXPECT_THAT(opaque->pixels, ElementsAre(10, 10, 10, 20, 20, 20));
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

}  // namespace
}  // namespace trainyard::engine
