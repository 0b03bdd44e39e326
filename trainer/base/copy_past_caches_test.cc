#include "trainer/base/copy_past_caches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace trainyard::engine {
namespace {

TEST(CopyPastCachesTest, AnyBytesArriveWhereverTheyLieAndNoOthersChange) {
  constexpr size_t kAround = 80;
  for (const size_t size : {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 1000, 4099}) {
    for (size_t from_at = 0; from_at < 66; from_at += 13) {
      for (size_t to_at = 0; to_at < 66; ++to_at) {
        std::vector<std::byte> from(size + kAround);
        for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
        std::vector<std::byte> to(size + kAround, std::byte{0xEE});
        std::vector<std::byte> expected = to;
        std::ranges::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_at), static_cast<std::ptrdiff_t>(size),
                            expected.begin() + static_cast<std::ptrdiff_t>(to_at));
        CopyPastCaches(std::span(from).subspan(from_at, size), std::span(to).subspan(to_at));
        ASSERT_EQ(to, expected) << size << " bytes from " << from_at << " to " << to_at;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
