#include "trainer/transport/pace_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(PaceRecord, IsReadAsItWasWritten) {
  const WorkerPace pace{.worker = 3, .step = absl::Microseconds(1234), .node = "node-b.example"};
  const absl::StatusOr<WorkerPace> read = PaceOf(WithPace({}, pace), 4);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, pace);
}

TEST(PaceRecord, WhatCannotBeTellsWhatIsWrong) {
  const Record good = WithPace({}, {.worker = 3, .step = absl::Seconds(1), .node = "n"});
  EXPECT_THAT(std::string(PaceOf(good, 3).status().message()), HasSubstr("worker 3, expected below 3"));
  Record bad = good;
  bad.header.step = ~uint64_t{0};
  EXPECT_THAT(std::string(PaceOf(bad, 4).status().message()), HasSubstr("expected at most a year"));
  for (const std::string& node : {std::string("a b"), std::string("a\nb"), std::string(300, 'x'), std::string("\xc3\xa4")}) {
    bad = good;
    bad.payload = Payload::OfText(node);
    bad.header.length = static_cast<uint32_t>(node.size());
    EXPECT_TRUE(absl::IsInvalidArgument(PaceOf(bad, 4).status())) << node;
    EXPECT_EQ(PaceOf(WithPace({}, {.worker = 0, .step = absl::Seconds(1), .node = node}), 4)->node, "?");
  }
}

}  // namespace
}  // namespace trainyard::engine
