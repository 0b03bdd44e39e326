#include "trainer/tensor/finite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace trainyard::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FiniteTest, FindsNanAndInfinityOfEitherSignAtAnyPlace) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (size_t place = 0; place < 67; ++place) {
      std::vector<float> values(67, -1.5F);
      ASSERT_TRUE(AllFinite(values));
      values[place] = bad;
      EXPECT_FALSE(AllFinite(values)) << bad << " at " << place;
    }
  }
}

TEST(FiniteTest, TheLargestAndTheSmallestNumbersAreFiniteAndSoIsNothing) {
  using Limits = std::numeric_limits<float>;
  EXPECT_TRUE(AllFinite(std::vector<float>{Limits::max(), Limits::lowest(), Limits::denorm_min(), -0.0F}));
  EXPECT_TRUE(AllFinite({}));
}

TEST(FiniteTest, NamesTheFirstTensorThatIsNot) {
  ParameterSet set({{.name = "a", .shape = Shape({3})}, {.name = "b", .shape = Shape({2})}, {.name = "c", .shape = Shape({1})}});
  EXPECT_EQ(FirstNotFinite(set), "");
  set.values(2)[0] = kNan;
  set.values(1)[1] = kInfinity;
  EXPECT_EQ(FirstNotFinite(set), "b");
}

}  // namespace
}  // namespace trainyard::engine
