#include "trainer/profile/operator_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/profile/profile_maker.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(OperatorTable, AddsUpTheNodesOfAllWorkersTheLongestFirst) {
  const OperatorTable table = MakeOperatorTable(MakeProfiles());
  EXPECT_EQ(table.workers, 2);
  EXPECT_EQ(table.worker_steps, 4);
  EXPECT_EQ(table.step_nanos, 4'000'000);
  ASSERT_EQ(table.nodes.size(), 2);
  EXPECT_EQ(table.nodes[0].name, "conv1");
  EXPECT_EQ(table.nodes[0].kind, "conv2d");
  EXPECT_EQ(table.nodes[0].calls, 4);
  EXPECT_EQ(table.nodes[0].nanos, 1'600'000);
  EXPECT_EQ(table.nodes[0].bytes, 16'000);
  EXPECT_DOUBLE_EQ(table.nodes[0].FlopsPerSecond(), 2e10);
  EXPECT_DOUBLE_EQ(table.nodes[0].Share(), 0.4);
  EXPECT_EQ(table.kinds[0].name, "conv2d");
  EXPECT_DOUBLE_EQ(table.MillisecondsPerStep(table.input_nanos), 0.05);
}

TEST(OperatorTable, DevicesOfAWorkerHaveRowsAndOperatorsAreTheirMean) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  ReplicaProfile& worker = profiles[0];
  worker.operators.push_back({.name = "conv1", .kind = "conv2d", .flops = 8'000'000, .bytes = 4'000, .device = 1});
  std::vector<Span> of_device_1;  // half as long
  for (const Span& span : worker.spans) {
    if (span.kind != SpanKind::kNode || span.id != 1) continue;
    of_device_1.push_back({.kind = SpanKind::kNode, .id = 3, .step = span.step, .start = span.start, .end = (span.start + span.end) / 2});
  }
  worker.spans.insert(worker.spans.end(), of_device_1.begin(), of_device_1.end());
  profiles.erase(profiles.begin() + 1);  // the other worker
  const OperatorTable table = MakeOperatorTable(profiles);
  ASSERT_EQ(table.devices.size(), 2);
  EXPECT_EQ(table.devices[0].name, "worker-0 device 0");
  EXPECT_DOUBLE_EQ(table.devices[0].MillisecondsPerStep(), 0.5);
  EXPECT_EQ(table.devices[1].name, "worker-0 device 1");
  EXPECT_DOUBLE_EQ(table.devices[1].Share(), 0.2);
  EXPECT_DOUBLE_EQ(table.nodes[0].Share(), 0.3);  // 40% and 20%
  EXPECT_DOUBLE_EQ(table.MillisecondsPerStep(table.step_nanos), 1);
  EXPECT_THAT(OperatorTableText(table, 5, 5), HasSubstr("worker-0 device 1   20.0%"));
  EXPECT_EQ(ToJson(table, 5)["devices"][1]["name"], "worker-0 device 1");
  EXPECT_TRUE(ToJson(MakeOperatorTable(MakeProfiles()), 5)["devices"].empty());
}

TEST(OperatorTable, TheStepsAreThoseThatWereRecorded) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  for (ReplicaProfile& profile : profiles) profile.steps = {.begin = 10, .end = 20};
  EXPECT_EQ(MakeOperatorTable(profiles).steps, (StepRange{.begin = 10, .end = 12})) << "the training ended before the others";
}

TEST(OperatorTable, NodesOfOneKindAreOneRow) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  for (ReplicaProfile& profile : profiles) {
    if (profile.rank >= 0) profile.operators[2].kind = "conv2d";
  }
  const OperatorTable table = MakeOperatorTable(profiles);
  ASSERT_EQ(table.kinds.size(), 1);
  EXPECT_EQ(table.kinds[0].calls, 8);
  EXPECT_EQ(table.nodes.size(), 2);
}

TEST(OperatorTable, TheTextHasABarForEachRowAndSaysHowManyItLeavesOut) {
  const OperatorTable table = MakeOperatorTable(MakeProfiles());
  const std::string text = OperatorTableText(table, 1, 2);
  EXPECT_THAT(text, AllOf(HasSubstr("steps 10-11 of 2 workers: 1.000 ms a step: input 5.0%, compute 61.0%, update 34.0%"),
                          HasSubstr(" 40.0%  ████████    "), HasSubstr("and 1 more"), HasSubstr("20.0"), HasSubstr("loss")));
  EXPECT_THAT(OperatorTableText(table, 1, 0), Not(HasSubstr("conv1")));
}

TEST(OperatorTable, EventsThatFoundNoRoomAreSpokenOf) {
  std::vector<ReplicaProfile> profiles = MakeProfiles();
  profiles[2].dropped = 7;
  EXPECT_THAT(OperatorTableText(MakeOperatorTable(profiles), 1, 1), HasSubstr("7 events found no room"));
}

TEST(OperatorTable, TheJsonHasEveryKindAndAsManyNodesAsAsked) {
  const nlohmann::json json = ToJson(MakeOperatorTable(MakeProfiles()), 1);
  EXPECT_EQ(json["steps"], nlohmann::json({10, 12}));
  EXPECT_EQ(json["operators"].size(), 2);
  EXPECT_EQ(json["nodes"].size(), 1);
  EXPECT_EQ(json["nodes"][0]["name"], "conv1");
  EXPECT_DOUBLE_EQ(json["nodes"][0]["flopsPerSecond"].get<double>(), 2e10);
  EXPECT_DOUBLE_EQ(json["nodes"][0]["share"].get<double>(), 0.4);
}

TEST(OperatorTable, NothingProfiledIsNoDivisionByZero) {
  const OperatorTable table = MakeOperatorTable({});
  EXPECT_EQ(table.Share(1), 0);
  EXPECT_THAT(OperatorTableText(table, 5, 5), HasSubstr("0.000 ms a step"));
}

}  // namespace
}  // namespace trainyard::engine
