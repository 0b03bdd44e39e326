#include "trainer/data/stages/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "trainer/data/memory_dataset.h"

namespace trainyard::engine {
namespace {

constexpr int kHeight = 4;
constexpr int kWidth = 5;
constexpr int kExamples = 200;

// Every image is 1, 2, 3 … row by row, with a second channel of 100 more.
std::unique_ptr<Dataset> Images() {
  DatasetInfo info{.name = "test", .examples = kExamples, .example_shape = {kHeight, kWidth, 2}, .x_dtype = DType::kU8};
  Buffer x(kExamples * kHeight * kWidth * 2);
  for (int64_t i = 0; i < kExamples * kHeight * kWidth; ++i) {
    x.as<uint8_t>()[2 * i] = static_cast<uint8_t>(i % (kHeight * kWidth) + 1);
    x.as<uint8_t>()[2 * i + 1] = static_cast<uint8_t>(i % (kHeight * kWidth) + 101);
  }
  Buffer y(kExamples * sizeof(int32_t));
  std::memset(y.data(), 0, y.size());
  return std::make_unique<MemoryDataset>(std::move(info), std::move(x), std::move(y));
}

using Image = std::vector<uint8_t>;

std::vector<Image> Read(const Dataset& dataset, std::vector<int64_t> indices, int64_t epoch) {
  Batch batch;
  batch.epoch = epoch;
  EXPECT_TRUE(dataset.Read(indices, batch).ok());
  std::vector<Image> images;
  const auto pixels = batch.x.values<uint8_t>();
  const size_t size = kHeight * kWidth * 2;
  for (size_t i = 0; i < indices.size(); ++i) images.emplace_back(pixels.begin() + i * size, pixels.begin() + (i + 1) * size);
  return images;
}

std::unique_ptr<Dataset> Augment(const AugmentConfig& config, uint64_t seed = 1) { return *Augmented(Images(), config, seed); }

std::vector<int64_t> All() {
  std::vector<int64_t> all(kExamples);
  for (int64_t i = 0; i < kExamples; ++i) all[i] = i;
  return all;
}

// The image moved and perhaps mirrored, written out pixel by pixel.
Image Changed(bool mirrored, int down, int right) {
  Image image;
  for (int y = down; y < kHeight + down; ++y) {
    for (int x = right; x < kWidth + right; ++x) {
      const bool inside = y >= 0 && y < kHeight && x >= 0 && x < kWidth;
      const int place = y * kWidth + (mirrored ? kWidth - 1 - x : x);
      image.push_back(inside ? static_cast<uint8_t>(place + 1) : 0);
      image.push_back(inside ? static_cast<uint8_t>(place + 101) : 0);
    }
  }
  return image;
}

TEST(Augment, EveryFlipAndShiftComesUpAndNothingElse) {
  std::set<Image> expected;
  for (const bool mirrored : {false, true}) {
    for (int down = -1; down <= 1; ++down) {
      for (int right = -1; right <= 1; ++right) expected.insert(Changed(mirrored, down, right));
    }
  }
  const std::vector<Image> images = Read(*Augment({.flip = true, .shift = 1}), All(), 0);
  EXPECT_EQ(std::set<Image>(images.begin(), images.end()), expected);
}

TEST(Augment, FlipAloneAndShiftAlone) {
  const std::vector<Image> flipped = Read(*Augment({.flip = true}), All(), 0);
  EXPECT_EQ(std::set<Image>(flipped.begin(), flipped.end()), (std::set<Image>{Changed(false, 0, 0), Changed(true, 0, 0)}));
  // 200 draws of one half: the standard deviation is 7.1.
  EXPECT_NEAR(static_cast<double>(std::ranges::count(flipped, Changed(true, 0, 0))), 100, 40);
  const std::vector<Image> shifted = Read(*Augment({.shift = 1}), All(), 0);
  EXPECT_EQ(std::set<Image>(shifted.begin(), shifted.end()).size(), 9U);
}

TEST(Augment, IsAFunctionOfSeedEpochAndExampleWhateverTheBatch) {
  const auto dataset = Augment({.flip = true, .shift = 3});
  const std::vector<Image> all = Read(*dataset, All(), 7);
  EXPECT_EQ(Read(*dataset, {150}, 7)[0], all[150]);
  EXPECT_EQ(Read(*Augment({.flip = true, .shift = 3}), All(), 7), all);
  EXPECT_NE(Read(*dataset, All(), 8), all);
  EXPECT_NE(Read(*Augment({.flip = true, .shift = 3}, 2), All(), 7), all);
}

TEST(Augment, WhatIsNoImageOrTooSmallIsNamed) {
  EXPECT_EQ(Augmented(Images(), {.shift = 4}, 1).status().message(),
            "augment.shift is 4, expected at least 0 and less than the 4 x 5 pixels of an image");
  DatasetInfo info{.name = "rows", .examples = 1, .example_shape = {3}};
  auto rows = std::make_unique<MemoryDataset>(std::move(info), Buffer(3 * sizeof(float)), Buffer(sizeof(int32_t)));
  EXPECT_EQ(Augmented(std::move(rows), {.flip = true}, 1).status().message(),
            "augment takes images [height, width, channels], found examples of shape [3]");
}

}  // namespace
}  // namespace trainyard::engine
