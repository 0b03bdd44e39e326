#include "trainer/backend/cuda/divide.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace trainyard::engine::cuda {
namespace {

constexpr int64_t kEdge = int64_t{1} << 31;

TEST(Divisor, DividesAsTheProcessorDoes) {
  std::mt19937_64 random(3);
  std::vector<int64_t> divisors = {1, 2, 3, 5, 7, 64, 65535, 65536, 65537, kEdge - 1, kEdge, kEdge + 1, int64_t{1} << 40};
  for (int i = 0; i < 200; ++i) divisors.push_back(1 + static_cast<int64_t>(random() >> (33 + i % 31)));
  for (const int64_t by : divisors) {
    const Divisor divisor(by);
    EXPECT_EQ(divisor.by(), by);
    std::vector<int64_t> numbers = {0, 1, by - 1, by, by + 1, kEdge - 1, kEdge, kEdge + 1, std::numeric_limits<int64_t>::max()};
    // Where a factor that is off by one would show first: beside the largest multiples.
    for (const int64_t multiple : {(kEdge - 1) / by * by, (kEdge - 1) / by * by - 1}) numbers.push_back(multiple);
    for (int i = 0; i < 200; ++i) numbers.push_back(static_cast<int64_t>(random() >> (1 + i % 63)));
    for (const int64_t i : numbers) {
      if (i < 0) continue;
      const auto [quotient, remainder] = divisor.Divide(i);
      ASSERT_EQ(quotient, i / by) << i << " / " << by;
      ASSERT_EQ(remainder, i % by) << i << " / " << by;
    }
  }
}

TEST(Divisor, OfNothingIsOne) { EXPECT_EQ(Divisor().Divide(17).quotient, 17); }

}  // namespace
}  // namespace trainyard::engine::cuda
