#include "trainer/base/lendable_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trainyard::engine {
namespace {

constexpr size_t kPage = LendableMemory::kPage;

bool IsZero(const std::shared_ptr<std::byte>& memory, size_t bytes) {
  return std::all_of(memory.get(), memory.get() + bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(LendableMemoryTest, WhatIsTakenIsZeroedAndApartAndHasAPlace) {
  const std::shared_ptr<LendableMemory> memory = LendableMemory::Create(4 * kPage).value();
  const std::shared_ptr<std::byte> first = memory->Take(kPage + 1);
  const std::shared_ptr<std::byte> second = memory->Take(kPage);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(IsZero(first, kPage + 1));
  EXPECT_EQ(memory->OffsetOf({first.get() + 8, 100}), 8U);
  EXPECT_EQ(memory->OffsetOf({second.get(), kPage}), 2 * kPage);
  EXPECT_EQ(memory->Take(kPage + 1), nullptr);
  EXPECT_NE(memory->Take(kPage), nullptr);
}

TEST(LendableMemoryTest, WhatIsGivenBackIsTakenAgainAsOneRangeOfZeros) {
  const std::shared_ptr<LendableMemory> memory = LendableMemory::Create(3 * kPage).value();
  std::vector<std::shared_ptr<std::byte>> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(memory->Take(kPage));
  for (const std::shared_ptr<std::byte>& each : taken) std::fill_n(each.get(), kPage, std::byte{7});
  for (const size_t i : {1, 0, 2}) taken[i] = nullptr;
  const std::shared_ptr<std::byte> all = memory->Take(3 * kPage);
  ASSERT_NE(all, nullptr);
  EXPECT_TRUE(IsZero(all, 3 * kPage));
}

TEST(LendableMemoryTest, WhatIsKeptStaysAsItIs) {
  const std::shared_ptr<LendableMemory> memory = LendableMemory::Create(2 * kPage).value();
  std::shared_ptr<std::byte> taken = memory->Take(kPage);
  std::byte* const start = taken.get();
  start[7] = std::byte{7};
  memory->KeepAll();
  taken = nullptr;
  EXPECT_EQ(start[7], std::byte{7});
  EXPECT_NE(memory->Take(kPage), nullptr);
  EXPECT_EQ(memory->Take(kPage), nullptr);
}

TEST(LendableMemoryTest, WhatLiesElsewhereOrReachesBeyondHasNoPlace) {
  std::shared_ptr<LendableMemory> memory = LendableMemory::Create(kPage).value();
  const std::shared_ptr<std::byte> all = memory->Take(kPage);
  const std::vector<std::byte> elsewhere(8);
  EXPECT_FALSE(memory->OffsetOf(elsewhere).has_value());
  EXPECT_FALSE(memory->OffsetOf({all.get() + 8, kPage}).has_value());
  EXPECT_FALSE(memory->OffsetOf({all.get() + 2 * kPage, 1}).has_value());
  memory = nullptr;
  all.get()[kPage - 1] = std::byte{1};  // lives as long as what was taken of it
}

}  // namespace
}  // namespace trainyard::engine
