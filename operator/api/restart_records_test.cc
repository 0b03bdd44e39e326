#include "operator/api/restart_records.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trainyard::control {
namespace {

using nlohmann::json;

const absl::Time kThen = absl::FromUnixSeconds(1'800'000'000);

std::string Uid(int i) { return fmt::format("{:08x}-0123-4567-89ab-0123456789ab", i); }

std::vector<RestartRecord> Disrupted(int count) {
  std::vector<RestartRecord> records;
  for (int i = 0; i < count; ++i) {
    records.push_back(
        {.replica = fmt::format("worker-{}", i), .pod_uid = Uid(i), .pod_counted = true, .backoff_step = 1, .last_end = kThen});
  }
  std::ranges::sort(records, {}, &RestartRecord::replica);
  return records;
}

TEST(RestartRecords, FewHaveAnEntryEachWithTheWholeUid) {
  const std::vector<RestartRecord> records = Disrupted(2);
  const json entries = RestartRecordsToJson(records);
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[1]["replica"], "worker-1");
  EXPECT_EQ(entries[1]["podUID"], Uid(1));
  EXPECT_EQ(RestartRecordsFromJson(entries), records);
  EXPECT_TRUE(RestartRecordsToJson({}).is_null());
}

TEST(RestartRecords, ThousandsThatAreDisruptedAtOnceStayBelowAHundredKilobytes) {
  EXPECT_LT(RestartRecordsToJson(Disrupted(1000)).dump().size(), 25'000U);
  EXPECT_LT(RestartRecordsToJson(Disrupted(4096)).dump().size(), 100'000U);
}

TEST(RestartRecords, ManyReadBackWithTheBeginningsOfTheirUids) {
  std::vector<RestartRecord> records = Disrupted(100);
  records[7].restarts = 3;
  records[9].pod_uid.clear();
  const std::vector<RestartRecord> read = RestartRecordsFromJson(RestartRecordsToJson(records));
  ASSERT_EQ(read.size(), records.size());
  for (size_t i = 0; i < read.size(); ++i) {
    SCOPED_TRACE(records[i].replica);
    EXPECT_EQ(NamesPod(read[i], records[i].pod_uid), i != 9);
    EXPECT_FALSE(NamesPod(read[i], "another"));
    RestartRecord same = read[i];
    same.pod_uid = records[i].pod_uid;
    EXPECT_EQ(same, records[i]);
  }
}

TEST(RestartRecords, HostileEntriesReadAsFarAsTheyMakeSense) {
  EXPECT_TRUE(RestartRecordsFromJson("x").empty());
  EXPECT_LE(RestartRecordsFromJson(json::parse(R"([{"replica": "worker", "indexes": "0-999999999", "podUIDs": [1, "u"]}])")).size(),
            65536U);
  const auto read = RestartRecordsFromJson(json::parse(R"([{"replica": "worker", "indexes": "3,5", "podUIDs": ["a"]}, 7])"));
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[1].replica, "worker-3");
  EXPECT_EQ(read[1].pod_uid, "a");
  EXPECT_EQ(read[2].pod_uid, "");
}

}  // namespace
}  // namespace trainyard::control
