#include "trainer/launch/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

constexpr char kReport[] = R"json({"job": "mnist", "state": "Succeeded", "strategy": "parameterServer/async", "workers": 2, "ps": 1,
  "seconds": 4.25, "steps": 140, "plannedSteps": 140, "plannedEpochs": 8, "batchesPerSecond": 61.04, "examplesPerSecond": 7813.4, "unit": "images",
  "unitsPerSecond": 7813.4, "eval": {"accuracy": 0.971, "loss": 0.1},
  "failures": [{"replica": "worker-1", "reason": "signal 9 (Killed)"}]})json";

const SummaryContext kContext{.dir = "d",
                              .checkpoints = "c",
                              .summaries = "s",
                              .file = "f",
                              .called_as = "trainyard-trainer",
                              .profile = "",
                              .overrides = {},
                              .serves_best = {},
                              .checkpoint_step = {}};

TEST(ReportText, SaysResultSpeedFailuresAndWhereThingsAre) {
  const std::string text = SummaryText(kReport, {.dir = "runs/mnist",
                                                 .checkpoints = "/elsewhere/checkpoints",
                                                 .summaries = "runs/mnist/curves",
                                                 .file = "job.yaml",
                                                 .called_as = "build/trainer",
                                                 .profile = "steps 10-19: 2 ms\n",
                                                 .overrides = {},
                                                 .serves_best = {},
                                                 .checkpoint_step = {}});
  for (const char* part :
       {"mnist Succeeded: parameterServer/async, 2 workers, 1 server", "0.9710", "7813 images/s, 61.0 batches/s",
        "4.2 s, 140 steps, 70 of each worker", "worker-1: signal 9 (Killed)", "runs/mnist/report.html", "runs/mnist/report.json",
        "/elsewhere/checkpoints\n", "tensorboard --logdir runs/mnist/curves\n", "  build/trainer launch job.yaml --output runs/mnist",
        "runs/mnist/trace.json", "Where the time went, steps 10-19: 2 ms", "  build/trainer profile runs/mnist"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportText, APathThatIsNotThereIsToldAsNone) {
  SummaryContext context = kContext;
  context.profile = "steps 10-19: 2 ms\n";
  context.exists = [](const std::string& path) { return path == "c"; };
  const std::string text = SummaryText(kReport, context);
  for (const char* part : {"page          none: d/report.html is not there\n", "report        none: d/report.json is not there\n",
                           "checkpoints   c\n", "TensorBoard   none: s is not there\n", "trace         none: d/trace.json is not there\n",
                           "logs          none: d/logs is not there\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(ReportText, SaysHowManyDevicesAWorkerHadWhereThereWereMoreThanOne) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Failed", "workers": 2, "devices": 4, "ps": 0})", kContext),
              ::testing::StartsWith("\none Failed: 2 workers of 4 devices, 0 servers\n"));
}

TEST(ReportText, OneStepIsOne) {
  EXPECT_THAT(
      SummaryText(R"({"job": "one", "state": "Succeeded", "workers": 1, "ps": 0, "seconds": 1, "steps": 1, "plannedSteps": 1})", kContext),
      HasSubstr("1.0 s, 1 step\n"));
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

TEST(ReportText, AFailedJobTellsItsStepsAndHowItGoesOn) {
  SummaryContext context = kContext;
  context.checkpoint_step = 800;
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Failed", "seconds": 14.2, "steps": 812, "plannedSteps": 1410})", context),
              ::testing::AllOf(HasSubstr("14.2 s, 812 of 1410 steps"), HasSubstr("go on from the checkpoint of step 800")));
}

TEST(ReportText, ANumberThatIsNoneIsNeverTold0) {
  EXPECT_THAT(
      SummaryText(R"({"job": "one", "state": "Failed", "eval": {"accuracy": 0.1, "loss": null}, "firstLoss": 2.3, "lastLoss": null})",
                  kContext),
      ::testing::AllOf(HasSubstr("loss          NaN (evaluation)"), HasSubstr("training loss NaN, 2.3000 at the start"),
                       HasSubstr("accuracy      0.1000")));
}

TEST(ReportText, AnUnstableTrainingIsSaidWhereItSucceeded) {
  EXPECT_THAT(
      SummaryText(R"({"job": "one", "state": "Succeeded", "lastLoss": 62.1, "firstLoss": 2.3, "warning": "the loss is 62.1, far above"})",
                  kContext),
      ::testing::AllOf(HasSubstr("training loss 62.1000, 2.3000 at the start"), HasSubstr("warning       the loss is 62.1, far above")));
}

TEST(ReportText, AStoppedRunSaysHowManyOfItsStepsItDid) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Stopped", "seconds": 2.5, "steps": 120, "plannedSteps": 560})", kContext),
              HasSubstr("2.5 s, 120 of 560 steps"));
}

TEST(ReportText, ALaunchThatWentOnTellsTheStepsOfItsTime) {
  EXPECT_THAT(
      SummaryText(R"({"job": "one", "state": "Succeeded", "seconds": 15, "steps": 705, "plannedSteps": 705, "firstStep": 423})", kContext),
      HasSubstr("15.0 s, steps 423 to 705\n"));
  EXPECT_THAT(
      SummaryText(R"({"job": "one", "state": "Stopped", "seconds": 15, "steps": 600, "plannedSteps": 705, "firstStep": 423})", kContext),
      HasSubstr("15.0 s, steps 423 to 600 of 705\n"));
}

TEST(ReportText, ARunThatFoundItsStepsDoneSaysSo) {
  constexpr char kIdle[] = R"({"job": "one", "state": "Succeeded", "steps": 40, "plannedSteps": 20, "perWorker": [{"batches": 0}]})";
  EXPECT_THAT(SummaryText(kIdle, kContext), HasSubstr("trained       no step: all 20 steps of this job were done before\n"));
  nlohmann::json busy = nlohmann::json::parse(kIdle);
  busy["perWorker"][0]["batches"] = 1;
  EXPECT_THAT(SummaryText(busy.dump(), kContext), ::testing::Not(HasSubstr("done before")));
}

TEST(ReportText, StepsThatWereLeftOutAreCounted) {
  EXPECT_THAT(
      SummaryText(
          R"({"job": "one", "state": "Succeeded", "perWorker": [{"batches": 10, "skippedBatches": 2}, {"batches": 10, "skippedBatches": 1}]})",
          kContext),
      HasSubstr("left out      3 of 20 batches"));
}

TEST(ReportText, ACheckpointThatWasDamagedIsNamedWithTheStepsItCost) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Succeeded", "restarts": [{"replica": "worker-1", "reason": "killed", "step": 7},
                {"replica": "checkpoint", "reason": "skipped c/step-142: it is torn", "step": 100, "lostSteps": 42}]})",
                          kContext),
              ::testing::AllOf(HasSubstr("checkpoint    skipped c/step-142: it is torn; went on from step 100, 42 steps lost\n"),
                               ::testing::Not(HasSubstr("killed"))));
}

TEST(ReportText, AnAllReduceSaysHowItAdds) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Succeeded", "allReduce": {
                "algorithm": "direct", "latencySeconds": 0.00004, "bytesPerSecond": 3.1e9}})",
                          kContext),
              HasSubstr("all-reduce    direct; latency 40 us, 3.1 GB/s"));
}

TEST(ReportText, WorkersThatWereSlowAreNamed) {
  EXPECT_THAT(SummaryText(R"({"job": "one", "state": "Succeeded", "stragglers": [
                {"replica": "worker-3", "node": "b", "from": 70, "to": 90, "stepSeconds": 0.0312, "medianSeconds": 0.02}]})",
                          kContext),
              HasSubstr("slow          worker-3 on b from step 70 to 90: 31.2 ms a step without waits, the median is 20.0 ms"));
}

TEST(ReportText, SpeaksOfNoPageThatWasNotWritten) {
  SummaryContext context = kContext;
  EXPECT_THAT(SummaryText(kReport, context), HasSubstr("d/report.html"));
  context.has_page = false;
  EXPECT_THAT(SummaryText(kReport, context), ::testing::Not(HasSubstr("report.html")));
}

TEST(ReportText, QuotesTheFolderOfTheCurves) {
  SummaryContext context = kContext;
  context.summaries = "my runs/s";
  EXPECT_THAT(SummaryText(kReport, context), HasSubstr("tensorboard --logdir 'my runs/s'\n"));
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
