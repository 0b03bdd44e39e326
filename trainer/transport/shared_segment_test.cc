#include "trainer/transport/shared_segment.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kRing = 4096;

std::string Why(const SegmentOffer& offer) { return std::string(SharedSegment::Open(offer).status().message()); }

TEST(SharedSegmentTest, TwoMappingsOfOneSegmentExchangeBytesBothWays) {
  const std::unique_ptr<SharedSegment> maker = SharedSegment::Create(kRing).value();
  const std::unique_ptr<SharedSegment> taker = SharedSegment::Open(maker->Offer().value()).value();
  EXPECT_EQ(maker->answer(), taker->answer());
  const std::vector<std::byte> bytes(100, std::byte{7});
  for (const auto& [from, to] : {std::pair(maker.get(), taker.get()), std::pair(taker.get(), maker.get())}) {
    ASSERT_EQ(from->Writer().Write(bytes).value(), 100U);
    std::vector<std::byte> found(200);
    ASSERT_EQ(to->Reader().Read(found).value(), 100U);
    found.resize(100);
    EXPECT_EQ(found, bytes);
    const std::optional<uint32_t> run = from->Filler().Take(bytes.size());
    ASSERT_TRUE(run.has_value());
    std::ranges::copy(bytes, from->Filler().At(*run, bytes.size()).begin());
    EXPECT_TRUE(std::ranges::equal(to->Borrower().At(*run, bytes.size()).value(), bytes));
    from->own_want() = 1;
    EXPECT_EQ(to->other_want(), 1U);
    EXPECT_EQ(to->own_want(), 0U);
    from->own_want() = 0;
  }
}

TEST(SharedSegmentTest, AnOfferTravelsAsBytesOfOneLength) {
  const std::unique_ptr<SharedSegment> maker = SharedSegment::Create(kRing).value();
  const SegmentOffer offer = maker->Offer().value();
  const std::optional<SegmentOffer> found = SegmentOfferOf(ToPayload(offer));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->token, offer.token);
  EXPECT_EQ(found->file, offer.file);
  EXPECT_FALSE(SegmentOfferOf(Payload::OfText("short")).has_value());
}

TEST(SharedSegmentTest, AnotherMachineOrContainerIsNotFound) {
  const std::unique_ptr<SharedSegment> maker = SharedSegment::Create(kRing).value();
  SegmentOffer other_boot = maker->Offer().value();
  other_boot.machine.boot[0] ^= 1;
  EXPECT_EQ(SharedSegment::Open(other_boot).status().code(), absl::StatusCode::kNotFound);
  SegmentOffer other_container = maker->Offer().value();
  ++other_container.machine.process_ids_namespace;
  EXPECT_EQ(SharedSegment::Open(other_container).status().code(), absl::StatusCode::kNotFound);
}

TEST(SharedSegmentTest, AnotherFileThanTheOfferedOneIsRefused) {
  const std::unique_ptr<SharedSegment> maker = SharedSegment::Create(kRing).value();
  const SegmentOffer offer = maker->Offer().value();

  SegmentOffer wrong = offer;
  wrong.ring_bytes = 2 * kRing;
  EXPECT_THAT(Why(wrong), HasSubstr("has 49152 bytes, expected 90112"));
  wrong.ring_bytes = 1U << 31;
  EXPECT_THAT(Why(wrong), HasSubstr("expected a power of two from 4096 to 67108864"));
  wrong.ring_bytes = 5000;
  EXPECT_THAT(Why(wrong), HasSubstr("expected a power of two"));

  wrong = offer;
  wrong.token[0] ^= std::byte{1};
  EXPECT_THAT(Why(wrong), HasSubstr("its token is another one"));

  wrong = offer;
  wrong.file = 1'000'000;
  EXPECT_EQ(SharedSegment::Open(wrong).status().code(), absl::StatusCode::kUnavailable);

  const OwnedFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  wrong = offer;
  wrong.file = null.get();
  EXPECT_THAT(Why(wrong), HasSubstr("is not a memfd"));
}

TEST(SharedSegmentTest, AFileThatCanShrinkIsRefused) {
  const std::unique_ptr<SharedSegment> maker = SharedSegment::Create(kRing).value();
  SegmentOffer offer = maker->Offer().value();
  const OwnedFd unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096 + 2 * kRing), 0);
  offer.file = unsealed.get();
  EXPECT_THAT(Why(offer), HasSubstr("sealed against shrinking"));
}

TEST(SharedSegmentTest, AMakerThatHasClosedItsFileIsUnavailable) {
  const std::unique_ptr<SharedSegment> maker = SharedSegment::Create(kRing).value();
  const SegmentOffer offer = maker->Offer().value();
  maker->Close();
  EXPECT_FALSE(SharedSegment::Open(offer).ok());
}

}  // namespace
}  // namespace trainyard::engine
