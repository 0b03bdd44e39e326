#include "trainer/profile/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "trainer/profile/profile_maker.h"

namespace trainyard::engine {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

json TraceOf(const std::vector<ReplicaProfile>& profiles) {
  const std::vector<Exchange> exchanges = FindExchanges(profiles);
  return json::parse(ChromeTrace(profiles, exchanges, AlignClocks(profiles, exchanges)));
}

// The slice of a process and thread that is there at `ts`.
const json* SliceAt(const json& events, const json& at) {
  for (const json& event : events) {
    if (event["ph"] == "X" && event["pid"] == at["pid"] && event["tid"] == at["tid"] && event["ts"] <= at["ts"] &&
        event["ts"].get<double>() + event["dur"].get<double>() >= at["ts"].get<double>() && event["name"] != "update") {
      return &event;
    }
  }
  return nullptr;
}

TEST(ChromeTrace, EveryReplicaIsANamedProcessWithNamedThreads) {
  std::map<int, std::string> processes;
  std::map<int, std::set<std::string>> threads;
  for (const json& event : TraceOf(MakeProfiles())) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") threads[event["pid"]].insert(event["args"]["name"]);
    EXPECT_TRUE(processes.contains(event["pid"])) << event;
  }
  EXPECT_THAT(processes, ElementsAre(std::pair(1, "worker-0"), std::pair(2, "worker-1"), std::pair(3, "ps-0")));
  EXPECT_THAT(threads[2], ElementsAre("communication", "compute", "input", "steps"));
  EXPECT_THAT(threads[3], ElementsAre("serving 1"));
}

TEST(ChromeTrace, EventsAreInOrderAndNeitherNegativeNorHalfInsideAnother) {
  double last = 0;
  std::map<std::pair<int, int>, std::vector<double>> open;  // ends, innermost last
  for (const json& event : TraceOf(MakeProfiles({0, 3'000'000'000, -1'000'000'000}))) {
    if (event["ph"] == "M") continue;
    const double at = event["ts"];
    EXPECT_GE(at, last) << event;
    last = at;
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"], 0.0);
    std::vector<double>& ends = open[{event["pid"], event["tid"]}];
    while (!ends.empty() && ends.back() <= at) ends.pop_back();
    const double end = at + event["dur"].get<double>();
    if (!ends.empty()) {
      EXPECT_LE(end, ends.back()) << event;
    }
    ends.push_back(end);
  }
}

TEST(ChromeTrace, EveryArrowGoesFromAPushThroughItsSumToItsPull) {
  const json events = TraceOf(MakeProfiles({0, 3'000'000'000, -1'000'000'000}));
  std::map<int, std::vector<json>> arrows;
  for (const json& event : events) {
    if (event.contains("id")) arrows[event["id"]].push_back(event);
  }
  ASSERT_EQ(arrows.size(), 4);  // 2 workers, 2 steps, 1 tensor
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 3) << id;
    EXPECT_EQ(ends[0]["ph"], "s");
    EXPECT_EQ(ends[1]["ph"], "t");
    EXPECT_EQ(ends[2]["ph"], "f");
    const json* slices[] = {SliceAt(events, ends[0]), SliceAt(events, ends[1]), SliceAt(events, ends[2])};
    for (const json* slice : slices) ASSERT_NE(slice, nullptr) << id;
    EXPECT_EQ((*slices[0])["name"], "push conv1/kernel");
    EXPECT_EQ((*slices[1])["name"], "sum conv1/kernel");
    EXPECT_EQ((*slices[2])["name"], "pull conv1/kernel");
    EXPECT_EQ((*slices[0])["pid"], (*slices[2])["pid"]);
    EXPECT_EQ((*slices[1])["pid"], 3);
    for (const json* slice : slices) EXPECT_EQ((*slice)["args"]["step"], (*slices[0])["args"]["step"]);
  }
}

TEST(ChromeTrace, ClocksThatDifferStandSideBySide) {
  std::map<int, double> first_step;
  for (const json& event : TraceOf(MakeProfiles({0, 3'000'000'000, -1'000'000'000}))) {
    if (event["name"] == "step") first_step.try_emplace(event["pid"], event["ts"]);
  }
  EXPECT_THAT(first_step, ElementsAre(std::pair(1, 0.0), std::pair(2, 0.0)));
}

TEST(ChromeTrace, WhatAServerDoesAtOnceStandsOnRowsOfItsOwn) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  ReplicaProfile& server = profiles[2];
  server.spans.push_back(server.spans.front());
  std::set<int> threads;
  for (const json& event : TraceOf(profiles)) {
    if (event["ph"] == "X" && event["pid"] == 3) threads.insert(event["tid"].get<int>());
  }
  EXPECT_EQ(threads.size(), 2);
}

TEST(ChromeTrace, EachBucketOfAnAllReduceHasARowOfItsOwnAndTheWaitStandsInTheUpdate) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  profiles.resize(1);
  profiles[0].tensors = {"'dense'", "'conv1'"};
  const Span update = *std::ranges::find(profiles[0].spans, SpanKind::kUpdate, &Span::kind);
  std::erase_if(profiles[0].spans, [](const Span& span) { return span.id == 0 && span.kind != SpanKind::kNode; });
  for (const int bucket : {0, 1}) {
    profiles[0].spans.push_back(
        {.kind = SpanKind::kBucket, .id = bucket, .step = update.step, .start = update.start - 1000 + bucket, .end = update.start + 2000});
  }
  profiles[0].spans.push_back({.kind = SpanKind::kWait, .step = update.step, .start = update.start, .end = update.start + 2000});
  std::map<int, std::string> threads;
  std::map<std::string, int> rows;
  for (const json& event : TraceOf(profiles)) {
    if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X") rows[event["name"]] = event["tid"];
  }
  EXPECT_EQ(threads[rows["all-reduce 'dense'"]], "bucket 0");
  EXPECT_EQ(threads[rows["all-reduce 'conv1'"]], "bucket 1");
  EXPECT_EQ(threads[rows["wait"]], "communication");
  EXPECT_EQ(rows["wait"], rows["update"]);
}

TEST(ChromeTrace, EachDeviceOfAWorkerHasARowOfItsOwn) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  profiles[0].operators[2].device = 1;
  std::map<int, std::string> threads;
  std::map<std::string, int> rows;
  for (const json& event : TraceOf(profiles)) {
    if (event["pid"] != 1) continue;
    if (event["name"] == "thread_name") threads[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "X") rows[event["name"]] = event["tid"];
  }
  EXPECT_EQ(threads[rows["conv1"]], "device 0");
  EXPECT_EQ(threads[rows["loss"]], "device 1");
  EXPECT_EQ(threads[rows["compute"]], "compute");
}

TEST(ChromeTrace, AnyNameIsGoodJson) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  profiles[0].operators[1].name = "a \"quoted\" \xff name\n";
  EXPECT_FALSE(TraceOf(profiles).empty());
}

}  // namespace
}  // namespace trainyard::engine
