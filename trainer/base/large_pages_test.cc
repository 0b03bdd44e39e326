#include "trainer/base/large_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"

namespace trainyard::engine {
namespace {

// Whether the mapping that holds `address` asks for large pages (proc(5): VmFlags of smaps).
bool AsksForLargePages(const std::byte* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0, end = 0;  // NOLINT(google-runtime-int): as sscanf wants them
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) here = begin <= wanted && wanted < end;
    if (here && absl::StartsWith(line, "VmFlags:")) return absl::StrContains(line + " ", " hg ");
  }
  return false;
}

TEST(MapLargePages, AsksForThemInWholeOnesOnly) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "the kernel has no transparent huge pages";
  const MappedBytes memory = MapLargePages(2 * kLargePage + 1);
  ASSERT_NE(memory, nullptr);
  EXPECT_TRUE(AsksForLargePages(memory.get()));
  EXPECT_TRUE(AsksForLargePages(memory.get() + kLargePage));
  EXPECT_FALSE(AsksForLargePages(memory.get() + 2 * kLargePage));
}

TEST(MapLargePages, GivesZerosFromTheStartOfAPage) {
  for (const size_t bytes : {size_t{1}, kLargePage - 1, kLargePage, 3 * kLargePage + 5}) {
    const MappedBytes memory = MapLargePages(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % kLargePage, 0);
    for (const size_t at : {size_t{0}, bytes / 2, bytes - 1}) EXPECT_EQ(memory.get()[at], std::byte{0});
    memory.get()[bytes - 1] = std::byte{1};
  }
}

TEST(MapLargePages, GivesNothingWhereMemoryIsShort) { EXPECT_EQ(MapLargePages(size_t{1} << 60), nullptr); }

TEST(MapLargePages, GoesBackToTheSystemWithItsOwner) {
  MappedBytes memory = MapLargePages(kLargePage);
  ASSERT_NE(memory, nullptr);
  std::byte* const start = memory.get();
  unsigned char resident = 0;
  EXPECT_EQ(mincore(start, 1, &resident), 0);
  memory.reset();
  EXPECT_NE(mincore(start, 1, &resident), 0);  // mincore(2): ENOMEM where nothing is mapped
}

}  // namespace
}  // namespace trainyard::engine
