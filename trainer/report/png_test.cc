#include "trainer/report/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <vector>

namespace trainyard::engine {
namespace {

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

}  // namespace
}  // namespace trainyard::engine
