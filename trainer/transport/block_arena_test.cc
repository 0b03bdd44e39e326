#include "trainer/transport/block_arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>
#include <string>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

class BlockArenaTest : public ::testing::Test {
 protected:
  static constexpr size_t kBlock = 16;

  ArenaState state_{};
  std::array<std::byte, kArenaBlocks * kBlock> memory_{};
  ArenaWriter writer_{state_, memory_};
  ArenaReader reader_{state_, memory_};
};

TEST_F(BlockArenaTest, WhatIsWrittenIntoARunIsReadWhereItLies) {
  const std::optional<uint32_t> run = writer_.Take(40);
  ASSERT_TRUE(run.has_value());
  writer_.At(*run, 40)[39] = std::byte{7};
  const std::span<const std::byte> found = reader_.At(*run, 40).value();
  EXPECT_EQ(found.size(), 40U);
  EXPECT_EQ(found[39], std::byte{7});
  EXPECT_EQ(found.data(), memory_.data() + *run * kBlock);
}

TEST_F(BlockArenaTest, RunsAreGivenBackInAnyOrderAndTakenAgain) {
  EXPECT_EQ(writer_.Take(20 * kBlock), 0U);
  EXPECT_EQ(writer_.Take(20 * kBlock), 20U);
  EXPECT_EQ(writer_.Take(20 * kBlock), 40U);
  EXPECT_EQ(writer_.Take(20 * kBlock), std::nullopt);
  reader_.Return(20, 20 * kBlock);
  EXPECT_EQ(writer_.Take(21 * kBlock), std::nullopt) << "a run is in one piece";
  EXPECT_EQ(writer_.Take(20 * kBlock - 1), 20U);
  EXPECT_EQ(writer_.Take(1), 60U);
}

TEST_F(BlockArenaTest, ARunMayBeTheWholeArenaAndNoMore) {
  EXPECT_EQ(writer_.Take(memory_.size() + 1), std::nullopt);
  EXPECT_EQ(writer_.Take(memory_.size()), 0U);
  EXPECT_EQ(writer_.Take(1), std::nullopt);
  reader_.Return(0, memory_.size());
  EXPECT_EQ(writer_.Take(memory_.size()), 0U);
}

TEST_F(BlockArenaTest, ARunThatDoesNotLieInTheArenaIsAnError) {
  const uint32_t last = kArenaBlocks - 1;
  EXPECT_TRUE(reader_.At(last, kBlock).ok());
  for (const auto& [block, size] : {std::pair<uint32_t, size_t>(last, kBlock + 1),
                                    {kArenaBlocks, 1},
                                    {0, memory_.size() + 1},
                                    {0, 0},
                                    {std::numeric_limits<uint32_t>::max(), std::numeric_limits<uint32_t>::max()}}) {
    const absl::Status status = reader_.At(block, size).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << block;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected a run inside 64 blocks of 16 bytes each"));
  }
}

}  // namespace
}  // namespace trainyard::engine
