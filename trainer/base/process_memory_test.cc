#include "trainer/base/process_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

TEST(MaxRss, GrowsWithTheMemoryThatIsTouched) {
  const int64_t before = MaxRssBytes();
  EXPECT_GT(before, 1 << 20);
  constexpr size_t kBytes = 64 << 20;
  std::vector<char> memory(kBytes, 1);
  EXPECT_GT(MaxRssBytes(), static_cast<int64_t>(kBytes) * 9 / 10);
  EXPECT_EQ(memory[kBytes / 2], 1);
}

}  // namespace
}  // namespace trainyard::engine
