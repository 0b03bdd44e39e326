#include "trainer/page/step_timeline.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::engine {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json Named(const char* what, int pid, int tid, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}};
}

json Span(int pid, int tid, double begin, double micros, const std::string& name, const char* category, int step = 0) {
  return {{"ph", "X"},     {"pid", pid},   {"tid", tid},      {"ts", begin},
          {"dur", micros}, {"name", name}, {"cat", category}, {"args", {{"step", step}}}};
}

json Replica(int pid, const std::string& name, double begin, int steps) {
  json events = {Named("process_name", pid, 0, name), Named("thread_name", pid, 1, "steps"), Named("thread_name", pid, 3, "compute"),
                 Named("thread_name", pid, 1000, "communication"), Named("thread_name", pid, 1001, "input: read")};
  for (int i = 0; i < steps; ++i) {
    const double at = begin + 100 * i;
    events.push_back(Span(pid, 1, at, 100, "step", "step", 10 + i));
    events.push_back(Span(pid, 3, at, 60, "compute", "compute", 10 + i));
    events.push_back(Span(pid, 3, at, 20, "conv1", "operator", 10 + i));
    events.push_back(Span(pid, 1000, at + 60, 40, "push w", "communication", 10 + i));
    events.push_back(Span(pid, 1001, at, 5, "read", "input", 10 + i));
  }
  return events;
}

TEST(StepTimeline, HasTheFirstStepsOfAllReplicasAtOneTime) {
  json trace = Replica(1, "worker-0", 1000, 10);
  for (const json& event : Replica(2, "worker-1", 1050, 10)) trace.push_back(event);
  const ordered_json timeline = StepTimeline(trace);
  EXPECT_EQ(timeline["microseconds"], 300);
  EXPECT_EQ(timeline["steps"], ordered_json::array({10, 12}));
  ASSERT_EQ(timeline["replicas"].size(), 2U);
  const ordered_json& lanes = timeline["replicas"][1]["lanes"];
  EXPECT_EQ(timeline["replicas"][1]["name"], "worker-1");
  ASSERT_EQ(lanes.size(), 2U);
  EXPECT_EQ(lanes[0]["name"], "compute");
  EXPECT_EQ(lanes[0]["spans"].dump(), R"([[50.0,60.0,"compute"],[150.0,60.0,"compute"],[250.0,50.0,"compute"]])") << "cut at the end";
  EXPECT_EQ(lanes[1]["spans"][0].dump(), R"([110.0,40.0,"push w"])");
}

TEST(StepTimeline, IsBounded) {
  json trace = json::array();
  for (int pid = 1; pid <= 40; ++pid) {
    for (const json& event : Replica(pid, "worker-" + std::to_string(pid), 0, 5)) trace.push_back(event);
  }
  for (int i = 0; i < 1000; ++i) trace.push_back(Span(1, 1000, 0, 1, "push", "communication"));
  for (int i = 0; i < 20; ++i) {
    trace.push_back(Named("thread_name", 1, 2000 + i, "bucket " + std::to_string(i)));
    trace.push_back(Span(1, 2000 + i, 0, 1, "all-reduce", "communication"));
  }
  const ordered_json timeline = StepTimeline(trace);
  EXPECT_EQ(timeline["replicas"].size(), kMostTimelineReplicas);
  EXPECT_EQ(timeline["left_out"], 40 - kMostTimelineReplicas);
  EXPECT_EQ(timeline["replicas"][0]["lanes"][1]["spans"].size(), kMostTimelineSpans);
  EXPECT_EQ(timeline["replicas"][0]["lanes"].size(), kMostTimelineLanes);
  EXPECT_EQ(timeline["replicas"][0]["lanes"][2]["name"], "bucket 0");
}

TEST(StepTimeline, OfATraceWithoutStepsIsNone) {
  EXPECT_TRUE(StepTimeline(json::array()).is_null());
  EXPECT_TRUE(StepTimeline(Replica(1, "ps-0", 0, 0)).is_null());
}

TEST(StepTimeline, NumbersThatAreNoneAreTold) {
  json trace = Replica(1, "worker-0", 0, 1);
  trace.push_back(Span(1, 3, 0, 1, "compute", "compute"));
  trace.back()["ts"] = "soon";
  EXPECT_THROW(StepTimeline(trace), json::exception);
  trace.back()["ts"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(StepTimeline(trace)["replicas"][0]["lanes"][0]["spans"].size(), 1U);
}

}  // namespace
}  // namespace trainyard::engine
