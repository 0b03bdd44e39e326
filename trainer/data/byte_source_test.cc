#include "trainer/data/byte_source.h"

#include <gtest/gtest.h>

#include <cstring>

#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

// A packed file whose header lies: it promises gigabytes and holds `count` bytes.
class Promising final : public ByteSource {
 public:
  explicit Promising(size_t count) : left_(count) {}
  absl::StatusOr<size_t> Read(std::span<std::byte> out) override {
    const size_t got = std::min(out.size(), left_);
    if (got > 0) std::memset(out.data(), 7, got);
    left_ -= got;
    return got;
  }
  uint64_t AtMostLeft() const override { return uint64_t{3} << 30; }

 private:
  size_t left_;
};

TEST(ReadAsTheyCome, ThreeGigabytesThatAreOnlyPromisedAreNotAllocated) {
  EXPECT_TRUE(HoldsWithMoreMemory(rlim_t{256} << 20, [] {
    Promising source(100);
    const absl::StatusOr<Buffer> bytes = ReadAsTheyCome(source, uint64_t{3} << 30);
    return bytes.ok() && bytes->size() == 100 && bytes->as<char>()[99] == 7;
  }));
}

TEST(ReadAsTheyCome, WhatIsThereIsReadWholeWhateverItsSize) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16} << 20, (size_t{16} << 20) + 1, size_t{70} << 20}) {
    Promising source(size + 1);
    const absl::StatusOr<Buffer> bytes = ReadAsTheyCome(source, size);
    ASSERT_TRUE(bytes.ok());
    ASSERT_EQ(bytes->size(), size);
    if (size > 0) {
      EXPECT_EQ(bytes->as<char>()[size - 1], 7);
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
