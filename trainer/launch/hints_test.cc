#include "trainer/launch/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using nlohmann::json;

json Report() {
  return {{"state", "Succeeded"}, {"strategy", "parameterServer/sync"}, {"workers", 2}, {"ps", 1}, {"plannedEpochs", 8},
          {"plannedSteps", 560}};
}

HintContext Context(std::vector<std::string> overrides = {}) {
  return {.dir = "runs/a",
          .file = "job.yaml",
          .overrides = std::move(overrides),
          .profiled = false,
          .serves_best = std::nullopt,
          .checkpoint_step = std::nullopt};
}

std::vector<std::string> Commands(const json& report, const HintContext& context) {
  std::vector<std::string> commands;
  for (const Hint& hint : NextSteps(report, context)) commands.push_back(hint.arguments);
  return commands;
}

TEST(HintsTest, LongerIsTwiceWhatTheRunHadInTheJobsOwnWords) {
  EXPECT_EQ(Commands(Report(), Context())[0], "launch job.yaml --output runs/a --set training.epochs=16");
  json steps = Report();
  steps["plannedEpochs"] = 0;
  EXPECT_EQ(Commands(steps, Context())[0], "launch job.yaml --output runs/a --set training.steps=1120");
  steps["strategy"] = "parameterServer/async";
  EXPECT_EQ(Commands(steps, Context())[0], "launch job.yaml --output runs/a --set training.steps=560")
      << "there each worker counts its own";
}

TEST(HintsTest, LongerIsTwiceWhatTheFolderHasWhereThatIsMore) {
  json report = Report();
  report["steps"] = 1120;
  EXPECT_EQ(Commands(report, Context())[0], "launch job.yaml --output runs/a --set training.epochs=32");
  report["steps"] = 1121;
  EXPECT_EQ(Commands(report, Context())[0], "launch job.yaml --output runs/a --set training.epochs=34");
  report["plannedEpochs"] = 0;
  EXPECT_EQ(Commands(report, Context())[0], "launch job.yaml --output runs/a --set training.steps=2242");
}

TEST(HintsTest, TheRunsOverridesStayButForTheFieldThatChanges) {
  const HintContext context = Context({"worker.replicas=4", "spec.training.epochs=3", "training.optimizer={name: sgd}"});
  const std::vector<std::string> commands = Commands(Report(), context);
  EXPECT_EQ(commands[0],
            "launch job.yaml --output runs/a --set worker.replicas=4 --set 'training.optimizer={name: sgd}' --set training.epochs=16");
  EXPECT_EQ(commands[1], "launch job.yaml --set spec.training.epochs=3 --set 'training.optimizer={name: sgd}' --set worker.replicas=4");
}

TEST(HintsTest, MoreWorkersAreMoreThanTheRunHadAndAtMost8) {
  const std::vector<std::pair<int, int>> cases = {{1, 2}, {2, 4}, {3, 4}, {4, 8}, {7, 8}};
  for (const auto& [workers, more] : cases) {
    json report = Report();
    report["workers"] = workers;
    EXPECT_EQ(Commands(report, Context())[1], "launch job.yaml --set worker.replicas=" + std::to_string(more));
  }
  json many = Report();
  many["workers"] = 8;
  EXPECT_THAT(Commands(many, Context()), ::testing::Each(::testing::Not(::testing::HasSubstr("worker.replicas"))));
}

TEST(HintsTest, AJobThatStoppedEarlyGoesOnOnlyWithoutThat) {
  json report = Report();
  report["stoppedEarly"] = {{"reason", "x"}};
  EXPECT_EQ(Commands(report, Context())[0],
            "launch job.yaml --output runs/a --set training.epochs=16 --set training.evaluate.earlyStopping=null");
}

TEST(HintsTest, AStoppedRunGoesOnAsItWas) {
  json report = Report();
  report["state"] = "Stopped";
  EXPECT_EQ(Commands(report, Context({"worker.replicas=3"}))[0], "launch job.yaml --output runs/a --set worker.replicas=3");
}

TEST(HintsTest, AFailedJobCanGoOnFromItsNewestCheckpoint) {
  json report = Report();
  report["state"] = "Failed";
  HintContext context = Context({"worker.replicas=3"});
  EXPECT_TRUE(NextSteps(report, context).empty());
  context.checkpoint_step = 800;
  EXPECT_EQ(NextSteps(report, context), std::vector<Hint>({{.arguments = "launch job.yaml --output runs/a --set worker.replicas=3",
                                                            .what = "go on from the checkpoint of step 800, when the cause is mended"}}));
}

TEST(HintsTest, AJobWithSpecServeEndsWithTheCommandThatServesIt) {
  EXPECT_THAT(Commands(Report(), Context()), ::testing::Each(::testing::Not(::testing::HasSubstr("serve"))));
  json report = Report();
  report["job"] = "digits";
  HintContext context = Context();
  context.serves_best = false;
  EXPECT_THAT(Commands(report, context), ::testing::Contains("serve runs/a --name digits"));
  context.serves_best = true;
  EXPECT_THAT(Commands(report, context), ::testing::Contains("serve runs/a --name digits --best"));
}

TEST(HintsTest, NamesWithBlanksAreQuotedForTheShell) {
  HintContext context = Context();
  context.dir = "my runs/it's";
  EXPECT_EQ(Commands(Report(), context)[0], R"(launch job.yaml --output 'my runs/it'\''s' --set training.epochs=16)");
}

}  // namespace
}  // namespace trainyard::engine
