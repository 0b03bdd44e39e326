#include "trainer/serve/sequences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

class SequencesTest : public ::testing::Test {
 protected:
  // The state that a request goes on from; null: refused.
  std::shared_ptr<CarriedRow> Go(const SequenceRequest& request) {
    std::shared_ptr<CarriedRow> found;
    status_ = sequences_.Go(request, version_, now_, [&](std::shared_ptr<CarriedRow> carried) {
      if (submits_.ok()) found = std::move(carried);
      return submits_;
    });
    return found;
  }

  Sequences sequences_{{.most = 2, .idle = absl::Seconds(10)}};
  std::shared_ptr<const int64_t> version_ = std::make_shared<const int64_t>(20);
  absl::Time now_ = absl::UnixEpoch();
  absl::Status submits_;
  absl::Status status_;
};

TEST_F(SequencesTest, ASequenceGoesOnFromItsStartToItsEnd) {
  const auto first = Go({.id = "a", .start = true});
  ASSERT_NE(first, nullptr) << status_;
  EXPECT_EQ(Go({.id = "a"}), first);
  EXPECT_NE(Go({.id = "b", .start = true}), first);
  EXPECT_EQ(Go({.id = "a", .end = true}), first);
  EXPECT_EQ(sequences_.live(now_), 1);
  EXPECT_EQ(Go({.id = "a"}), nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(status_)) << status_;
  EXPECT_THAT(std::string(status_.message()), HasSubstr("found \"a\", which has not begun"));
}

TEST_F(SequencesTest, AStartBeginsAgain) {
  const auto first = Go({.id = "a", .start = true});
  const auto second = Go({.id = "a", .start = true});
  EXPECT_NE(first, second);
  EXPECT_EQ(Go({.id = "a"}), second);
  EXPECT_EQ(sequences_.live(now_), 1);
}

TEST_F(SequencesTest, ASequenceOfOneRequestTakesNoPlace) {
  (void)Go({.id = "a", .start = true});
  (void)Go({.id = "b", .start = true});
  EXPECT_NE(Go({.id = "c", .start = true, .end = true}), nullptr) << status_;
  EXPECT_EQ(sequences_.live(now_), 2);
}

TEST_F(SequencesTest, NoMoreLiveThanMayUntilOneEndsOrIsIdle) {
  (void)Go({.id = "a", .start = true});
  (void)Go({.id = "b", .start = true});
  EXPECT_EQ(Go({.id = "c", .start = true}), nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(status_)) << status_;
  now_ += absl::Seconds(9);
  (void)Go({.id = "b"});
  now_ += absl::Seconds(1);
  EXPECT_EQ(sequences_.live(now_), 1);
  EXPECT_NE(Go({.id = "c", .start = true}), nullptr) << status_;
  EXPECT_EQ(Go({.id = "a"}), nullptr);
  EXPECT_NE(Go({.id = "b"}), nullptr) << status_;
}

TEST_F(SequencesTest, ARequestThatIsNotAnsweredYetKeepsItsSequence) {
  const auto held = Go({.id = "a", .start = true});
  now_ += absl::Hours(1);
  EXPECT_EQ(Go({.id = "a"}), held);
}

TEST_F(SequencesTest, ANewVersionEndsTheSequencesOfTheOldOneAndSaysSo) {
  (void)Go({.id = "a", .start = true});
  version_ = std::make_shared<const int64_t>(20);  // the same step, trained anew
  EXPECT_EQ(Go({.id = "a"}), nullptr);
  EXPECT_TRUE(absl::IsFailedPrecondition(status_)) << status_;
  EXPECT_THAT(std::string(status_.message()), HasSubstr("began with version 20 of the model and ended with it: version 20 is served now"));
  EXPECT_EQ(sequences_.live(now_), 0);
  EXPECT_NE(Go({.id = "a", .start = true}), nullptr) << status_;
}

TEST_F(SequencesTest, ARequestThatIsRefusedChangesNothing) {
  const auto first = Go({.id = "a", .start = true});
  submits_ = absl::ResourceExhaustedError("full");
  EXPECT_EQ(Go({.id = "a", .start = true}), nullptr);
  EXPECT_EQ(Go({.id = "a", .end = true}), nullptr);
  EXPECT_EQ(Go({.id = "b", .start = true}), nullptr);
  EXPECT_EQ(status_, submits_);
  submits_ = absl::OkStatus();
  EXPECT_EQ(Go({.id = "a"}), first);
  EXPECT_EQ(sequences_.live(now_), 1);
}

}  // namespace
}  // namespace trainyard::engine
