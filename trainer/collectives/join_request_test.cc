#include "trainer/collectives/join_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(JoinRequest, IsReadAsItWasWritten) {
  const JoinRequest request{.agreement = {{"a tensor", "conv1/kernel F32 [5, 5, 1, 20]"}, {"the seed", "7"}},
                            .furthest = 12,
                            .origin = {.step = 3, .epoch = 2, .offset = 100},
                            .because = "rank 2 is lost",
                            .from_checkpoint = true,
                            .node = "node-7",
                            .device_kind = "a GPU"};
  const absl::StatusOr<JoinRequest> read = ParseJoinRequest(ToJson(request));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->agreement, request.agreement);
  EXPECT_EQ(read->furthest, 12);
  EXPECT_EQ(read->origin, request.origin);
  EXPECT_EQ(read->because, "rank 2 is lost");
  EXPECT_TRUE(read->from_checkpoint);
  EXPECT_EQ(read->node, "node-7");
  EXPECT_EQ(read->device_kind, "a GPU");
}

TEST(JoinRequest, ABadOneIsRefusedByField) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"", "not a JSON object"},
           {"[]", "not a JSON object"},
           {std::string(1 << 20, ' '), "1048576 bytes of JSON, expected at most 65536"},
           {"{}", "'agreement'"},
           {R"({"agreement": [["a", 1]]})", "'agreement'"},
           {R"({"agreement": []})", "'furthest'"},
           {R"({"agreement": [], "furthest": 1.5})", "'furthest'"},
           {R"({"agreement": [], "furthest": 1})", "join: the origin of the input is missing"},
           {R"({"agreement": [], "furthest": 1, "origin": [0, 0, 0], "because": 3})", "'because'"},
           {R"({"agreement": [], "furthest": 1, "origin": [0, 0, 0], "because": "", "fromCheckpoint": 1})", "'fromCheckpoint'"},
           {R"({"agreement": [], "furthest": 1, "origin": [0, 0, 0], "because": "", "fromCheckpoint": true, "node": 1})", "'node'"},
           {R"({"agreement": [], "furthest": 1, "origin": [0, 0, 0], "because": "", "fromCheckpoint": true, "node": ""})",
            "'deviceKind'"}}) {
    const absl::Status status = ParseJoinRequest(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text.substr(0, 50);
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
  }
}

TEST(JoinRequest, ADifferenceIsNamedWithBothSides) {
  const GroupAgreement ours = {{"the seed", "1"}, {"a tensor", "w F32 [3]"}};
  EXPECT_TRUE(CheckAgreement(ours, 0, ours, 2).ok());
  const auto differs = [&](const GroupAgreement& theirs) { return std::string(CheckAgreement(ours, 0, theirs, 2).message()); };
  EXPECT_EQ(differs({{"the seed", "1"}, {"a tensor", "w F32 [4]"}}),
            "a tensor differs: rank 0 has w F32 [3], rank 2 has w F32 [4]; start all ranks with the same job file");
  EXPECT_THAT(differs({{"the seed", "1"}}), HasSubstr("rank 0 has a tensor, rank 2 has no more"));
  EXPECT_THAT(differs({{"batchSize", "1"}}), HasSubstr("rank 0 has the seed, rank 2 has batchSize"));
}

}  // namespace
}  // namespace trainyard::engine
