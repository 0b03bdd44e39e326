#include "trainer/transport/byte_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>
#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

class ByteRingTest : public ::testing::Test {
 protected:
  static std::vector<std::byte> Bytes(size_t count, uint8_t first = 0) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(first + i);
    return bytes;
  }
  std::vector<std::byte> Read(size_t at_most) {
    std::vector<std::byte> bytes(at_most);
    bytes.resize(reader_.Read(bytes).value());
    return bytes;
  }

  RingPositions positions_{};
  std::array<std::byte, 16> memory_{};
  RingWriter writer_{positions_, memory_};
  RingReader reader_{positions_, memory_};
};

TEST_F(ByteRingTest, AnEmptyRingHasRoomForAllItsBytesAndNothingToRead) {
  EXPECT_EQ(writer_.Room().value(), 16U);
  EXPECT_EQ(reader_.Available().value(), 0U);
  EXPECT_TRUE(Read(16).empty());
  EXPECT_EQ(writer_.Write({}).value(), 0U);
}

TEST_F(ByteRingTest, BytesComeOutInOrderAlsoAroundTheEnd) {
  uint8_t next = 0;
  for (const size_t count : {10U, 16U, 1U, 15U, 7U, 16U}) {
    const std::vector<std::byte> bytes = Bytes(count, next);
    ASSERT_EQ(writer_.Write(bytes).value(), count);
    ASSERT_EQ(reader_.Available().value(), count);
    ASSERT_EQ(Read(16), bytes);
    next = static_cast<uint8_t>(next + count);
  }
}

TEST_F(ByteRingTest, AFullRingTakesWhatFits) {
  EXPECT_EQ(writer_.Write(Bytes(20)).value(), 16U);
  EXPECT_EQ(writer_.Write(Bytes(1)).value(), 0U);
  EXPECT_EQ(Read(6), Bytes(6));
  EXPECT_EQ(writer_.Room().value(), 6U);
  EXPECT_EQ(writer_.Write(Bytes(20, 16)).value(), 6U);
  EXPECT_EQ(Read(16), Bytes(16, 6));
}

TEST_F(ByteRingTest, APositionOutsideTheRingIsAnErrorAndNothingIsTouched) {
  positions_.written = 17;
  EXPECT_THAT(std::string(reader_.Read(memory_).status().message()), HasSubstr("17 bytes were written into a ring of 16"));
  positions_.read = 3;
  EXPECT_THAT(std::string(writer_.Write(Bytes(1)).status().message()), HasSubstr("3 bytes more than were written"));
  EXPECT_EQ(positions_.read, 3U);
}

TEST_F(ByteRingTest, AWriterAndAReaderOfTwoThreadsSeeTheSameBytes) {
  constexpr uint32_t kCount = 20'000;
  std::thread writing([&] {
    for (uint32_t i = 0; i < kCount; ++i) {
      std::span<const std::byte> rest = std::as_bytes(std::span(&i, 1));
      while (!rest.empty()) {
        const size_t count = writer_.Write(rest).value();
        if (count == 0) std::this_thread::yield();
        rest = rest.subspan(count);
      }
    }
  });
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < kCount; ++i) {
    uint32_t found = 0;
    std::span<std::byte> rest = std::as_writable_bytes(std::span(&found, 1));
    while (!rest.empty()) {
      const size_t count = reader_.Read(rest).value();
      if (count == 0) std::this_thread::yield();
      rest = rest.subspan(count);
    }
    wrong += found != i ? 1 : 0;
  }
  writing.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace trainyard::engine
