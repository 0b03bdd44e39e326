#include "trainer/profile/merge_profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainer/base/clock.h"
#include "trainer/base/file.h"
#include "trainer/profile/profile_maker.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Folder() {
  std::string folder = ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

TEST(MergeProfiles, TheFilesOfAllReplicasBecomeTraceAndTables) {
  const std::string dir = Folder();
  for (const ReplicaProfile& profile : MakeProfiles({0, 9'000'000'000, 0})) ASSERT_TRUE(WriteReplicaProfile(dir, profile).ok());
  const auto table = MergeProfiles(dir);
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_TRUE(table->has_value());
  EXPECT_TRUE((*table)->written.ok()) << (*table)->written;
  EXPECT_EQ((*table)->table.workers, 2);
  EXPECT_THAT(*ReadFile(dir + "/profile.txt"), HasSubstr("conv1"));
  const json profile = json::parse(*ReadFile(dir + "/profile.json"));
  EXPECT_EQ(profile["nodes"].size(), 2);
  EXPECT_EQ(profile["clocks"][1]["replica"], "worker-1");
  EXPECT_EQ(profile["clocks"][1]["offsetMicroseconds"], -9e6);
  EXPECT_GT(json::parse(*ReadFile(dir + "/trace.json")).size(), 20);
}

TEST(MergeProfiles, TheTableIsThereWhereTheFilesCannotBeWritten) {
  const std::string dir = Folder();
  for (const ReplicaProfile& profile : MakeProfiles()) ASSERT_TRUE(WriteReplicaProfile(dir, profile).ok());
  std::filesystem::create_directories(dir + "/trace.json/in-the-way");
  const auto merged = MergeProfiles(dir);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ((*merged)->table.workers, 2);
  EXPECT_THAT((*merged)->written.message(), HasSubstr(dir + "/trace.json"));
}

TEST(MergeProfiles, AFolderWithoutProfilesGetsNoFiles) {
  const std::string dir = Folder();
  const auto table = MergeProfiles(dir);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_FALSE(table->has_value());
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST(ReplicaProfile, IsTheSameAfterWritingAndReading) {
  for (const ReplicaProfile& profile : MakeProfiles()) {
    const auto read = ParseReplicaProfile(ReplicaProfileJson(profile), "p");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->name(), profile.name());
    EXPECT_EQ(read->rank, profile.rank);
    EXPECT_EQ(read->steps, profile.steps);
    EXPECT_EQ(read->operators, profile.operators);
    EXPECT_EQ(read->tensors, profile.tensors);
    EXPECT_EQ(read->spans, profile.spans);
  }
}

TEST(ReplicaProfile, WhatDoesNotFitIsRefusedByName) {
  const json good = json::parse(ReplicaProfileJson(MakeProfiles()[0]));
  const auto error_with = [&](const char* path, const json& value) {
    json bad = good;
    bad[json::json_pointer(path)] = value;
    const auto parsed = ParseReplicaProfile(bad.dump(), "profiles/worker-0.json");
    return parsed.ok() ? "accepted" : std::string(parsed.status().message());
  };
  EXPECT_THAT(error_with("/spans/0/0", 99),
              AllOf(HasSubstr("profiles/worker-0.json"), HasSubstr("spans[0]: kind is 99, expected 0 to 12")));
  EXPECT_THAT(error_with("/spans/0/1", 3), HasSubstr("operator is 3, expected 0 to 2"));
  EXPECT_THAT(error_with("/spans/2/1", -1), HasSubstr("tensor is -1, expected 0 to 0"));
  EXPECT_THAT(error_with("/spans/1/5", 5), HasSubstr("spans[1]: end is 5, expected 1700000000"));
  EXPECT_THAT(error_with("/spans/1/4", 1e300), HasSubstr("start is 1e+300"));
  EXPECT_THAT(error_with("/spans/1", "x"), HasSubstr("expected [kind, id, worker, step, start, end]"));
  EXPECT_THAT(error_with("/steps/1", 9), HasSubstr("steps[1] is 9, expected 10"));
  EXPECT_THAT(error_with("/operators", 1), HasSubstr("is not a replica's profile"));
  EXPECT_THAT(error_with("/more", json::parse(std::string(64, '[') + std::string(64, ']'))), HasSubstr("no JSON of at most 64 levels"));
  EXPECT_FALSE(ParseReplicaProfile("{", "x").ok());
}

TEST(SpanLog, KeepsWhatFitsAndCountsTheRest) {
  SpanLog log({.begin = 5, .end = 7}, RealClock());
  log.Reserve(2);
  for (int i = 0; i < 5; ++i) log.Add({.step = i});
  EXPECT_EQ(log.size(), 2);
  EXPECT_EQ(log.dropped(), 3);
  EXPECT_FALSE(log.Wants(4));
  EXPECT_TRUE(log.Wants(5));
  EXPECT_FALSE(log.Wants(7));
}

}  // namespace
}  // namespace trainyard::engine
