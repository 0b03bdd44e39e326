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

TEST(AdviseLargePages, TakesWholeOnesOnly) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "the kernel has no transparent huge pages";
  constexpr size_t kBytes = 4 * kLargePage;
  void* const mapping = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapping, MAP_FAILED);
  const uintptr_t first = (reinterpret_cast<uintptr_t>(mapping) + kLargePage - 1) / kLargePage * kLargePage;
  auto* const whole = reinterpret_cast<std::byte*>(first);
  AdviseLargePages(whole + 1, 2 * kLargePage - 1);  // one whole page, the second
  EXPECT_FALSE(AsksForLargePages(whole));
  EXPECT_TRUE(AsksForLargePages(whole + kLargePage));
  EXPECT_FALSE(AsksForLargePages(whole + 2 * kLargePage));
  AdviseLargePages(whole, kLargePage - 1);  // none
  EXPECT_FALSE(AsksForLargePages(whole));
  munmap(mapping, kBytes);
}

}  // namespace
}  // namespace trainyard::engine
