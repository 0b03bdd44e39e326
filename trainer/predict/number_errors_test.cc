#include "trainer/predict/number_errors.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace trainyard::engine {
namespace {

const ExpectedData kOneNumber{.example_shape = Shape({2}), .target_shape = Shape({1})};

TEST(NumberErrors, OfALabelAsItIs) {
  auto errors = NumberErrors::For(kOneNumber, std::nullopt);
  ASSERT_TRUE(errors.has_value());
  EXPECT_FALSE(errors->Score().has_value());
  errors->Add(std::array{1.0F, 5.0F}, std::array{2.0F, 2.0F});
  errors->Add(std::array{5.0F}, std::array{5.0F});
  const auto score = errors->Score();
  EXPECT_DOUBLE_EQ(score->mean_absolute, 4.0 / 3);
  EXPECT_DOUBLE_EQ(score->root_mean_square, std::sqrt(10.0 / 3));
  EXPECT_DOUBLE_EQ(*score->r2, 1 - 10.0 / 6);
}

TEST(NumberErrors, OfAStandardisedLabelAreInItsUnit) {
  auto errors = NumberErrors::For(kOneNumber, LabelScale{.mean = 1e9, .deviation = 1000});
  errors->Add(std::array{0.5F, 0.0F}, std::array{1.0F, -1.0F});
  const auto score = errors->Score();
  EXPECT_DOUBLE_EQ(score->mean_absolute, 750);
  EXPECT_DOUBLE_EQ(score->root_mean_square, std::sqrt((500.0 * 500 + 1000.0 * 1000) / 2));
  EXPECT_DOUBLE_EQ(*score->r2, 1 - 1.25 / 2);
}

TEST(NumberErrors, EqualLabelsHaveNoR2) {
  auto errors = NumberErrors::For(kOneNumber, std::nullopt);
  errors->Add(std::array{1.0F, 2.0F}, std::array{3.0F, 3.0F});
  EXPECT_FALSE(errors->Score()->r2.has_value());
}

TEST(NumberErrors, ThereAreNoneOfClasses) { EXPECT_FALSE(NumberErrors::For({.classes = 2}, std::nullopt).has_value()); }

}  // namespace
}  // namespace trainyard::engine
