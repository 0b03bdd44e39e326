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

TEST(ReportText, SaysResultSpeedFailuresAndWhereThingsAre) {
  const std::string text = SummaryText(kReport, "runs/mnist", "job.yaml");
  for (const char* part : {"mnist Succeeded: parameterServer/async, 2 workers, 1 server", "0.9710", "7813 images/s, 61.0 batches/s",
                           "4.2 s, 140 steps", "worker-1: signal 9 (Killed)", "runs/mnist/report.json",
                           "tensorboard --logdir runs/mnist/summaries", "launch job.yaml --output runs/mnist"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportText, OffersMoreWorkersOnlyWhereThereAreServers) {
  EXPECT_THAT(SummaryText(kReport, "d", "f"), HasSubstr("worker.replicas=4"));
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Succeeded", "ps": 0})", "d", "f"),
              ::testing::AllOf(HasSubstr("Try next"), ::testing::Not(HasSubstr("worker.replicas=4"))));
}

TEST(ReportText, AFailedJobShowsNoSpeedItNeverHadAndNoHints) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Failed", "workers": 1, "ps": 0, "unitsPerSecond": 0})", "d", "f"),
              ::testing::AllOf(::testing::StartsWith("\none Failed: 1 worker, 0 servers\n"), ::testing::Not(HasSubstr("speed"))));
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Failed"})", "d", "f"), ::testing::Not(HasSubstr("Try next")));
}

TEST(ReportText, AnEmptyOrBrokenReportIsNoCrash) {
  EXPECT_EQ(SummaryText("not json", "d", "f"), "");
  EXPECT_THAT(SummaryText("{}", "d", "f"), HasSubstr("d/report.json"));
}

}  // namespace
}  // namespace trainyard::engine
