#include "trainer/launch/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr char kReport[] = R"json({"job": "mnist", "state": "Succeeded", "strategy": "parameterServer/async", "workers": 2, "ps": 1,
  "seconds": 4.25, "steps": 140, "batchesPerSecond": 61.04, "examplesPerSecond": 7813.4, "unit": "images",
  "unitsPerSecond": 7813.4, "eval": {"accuracy": 0.971, "loss": 0.1},
  "failures": [{"replica": "worker-1", "reason": "signal 9 (Killed)"}]})json";

constexpr SummaryContext kContext{.dir = "d", .file = "f", .called_as = "trainyard-trainer", .profile = ""};

TEST(ReportText, SaysResultSpeedFailuresAndWhereThingsAre) {
  const std::string text =
      SummaryText(kReport, {.dir = "runs/mnist", .file = "job.yaml", .called_as = "build/trainer", .profile = "steps 10-19: 2 ms\n"});
  for (const char* part : {"mnist Succeeded: parameterServer/async, 2 workers, 1 server", "0.9710", "7813 images/s, 61.0 batches/s",
                           "4.2 s, 140 steps", "worker-1: signal 9 (Killed)", "runs/mnist/report.json",
                           "tensorboard --logdir runs/mnist/summaries", "  build/trainer launch job.yaml --output runs/mnist",
                           "runs/mnist/trace.json", "Where the time went, steps 10-19: 2 ms", "  build/trainer profile runs/mnist"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportText, OffersMoreWorkersOnlyWhereThereAreServers) {
  EXPECT_THAT(SummaryText(kReport, kContext), HasSubstr("worker.replicas=4"));
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Succeeded", "ps": 0})", kContext),
              ::testing::AllOf(HasSubstr("Try next"), ::testing::Not(HasSubstr("worker.replicas=4"))));
}

TEST(ReportText, AFailedJobShowsNoSpeedItNeverHadAndNoHints) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Failed", "workers": 1, "ps": 0, "unitsPerSecond": 0})", kContext),
              ::testing::AllOf(::testing::StartsWith("\none Failed: 1 worker, 0 servers\n"), ::testing::Not(HasSubstr("speed"))));
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Failed"})", kContext), ::testing::Not(HasSubstr("Try next")));
}

TEST(ReportText, SpeaksOfNoTraceWhereNothingWasProfiled) {
  EXPECT_THAT(SummaryText(kReport, kContext), ::testing::Not(::testing::AnyOf(HasSubstr("trace"), HasSubstr("profile"))));
}

TEST(ReportText, AnEmptyOrBrokenReportIsNoCrash) {
  EXPECT_EQ(SummaryText("not json", kContext), "");
  EXPECT_THAT(SummaryText("{}", kContext), HasSubstr("d/report.json"));
}

}  // namespace
}  // namespace trainyard::engine
