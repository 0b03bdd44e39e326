#include "trainer/launch/progress_client.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trainer/report/progress_server.h"

namespace trainyard::engine {
namespace {

TEST(ProgressClient, ReadsBackWhatTheServerWrites) {
  Progress written;
  written.step = 12;
  written.total_steps = 100;
  written.epoch = 1;
  written.loss = 0.5;
  written.examples_per_second = 1000;
  written.unit = {.name = "words", .per_example = 30};
  written.perplexity = 1.5;
  written.eta = absl::Seconds(9);
  const auto read = ParseProgress(ProgressJson(written));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 12);
  EXPECT_EQ(read->total_steps, 100);
  EXPECT_EQ(read->loss, 0.5);
  EXPECT_EQ(read->eta, absl::Seconds(9));
  EXPECT_EQ(read->unit, written.unit);
  EXPECT_EQ(read->perplexity, 1.5);
  EXPECT_FALSE(read->last_checkpoint_step.has_value());
}

TEST(ProgressClient, GarbageIsAnErrorAndIllTypedFieldsAreLeftOut) {
  EXPECT_FALSE(ParseProgress("<html>").ok());
  EXPECT_FALSE(ParseProgress("[1]").ok());
  const auto odd = ParseProgress(R"({"step": "many", "loss": "low", "warning": 1, "evaluations": [1, {}, {"step": 1, "epoch": "x"}]})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->step, 0);
  EXPECT_FALSE(odd->loss.has_value());
  EXPECT_TRUE(odd->evaluations.empty());
}

TEST(ProgressClient, NumbersBeyondTheRangeAreLeftOut) {
  const auto odd = ParseProgress(R"({"step": 1e300, "totalSteps": -1e300, "epoch": 1e19, "unitsPerExample": 1e300, "etaSeconds": 1e300,
    "lastCheckpointStep": 1e300, "evaluations": [{"step": 9223372036854775808, "epoch": 0, "metrics": {}}]})");
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(odd->step, 0);
  EXPECT_EQ(odd->total_steps, 0);
  EXPECT_EQ(odd->epoch, 0);
  EXPECT_EQ(odd->unit.per_example, 1);
  EXPECT_EQ(odd->eta, absl::InfiniteDuration());
  EXPECT_FALSE(odd->last_checkpoint_step.has_value());
  EXPECT_TRUE(odd->evaluations.empty());
}

TEST(ProgressClient, ReadsEvaluationsWarningsAndALossThatIsNoNumber) {
  Progress written;
  written.loss = std::numeric_limits<double>::infinity();
  written.warning = "the loss is 62";
  written.waiting = "worker-0 waits";
  written.evaluations = {{.step = 70, .epoch = 0, .metrics = {{"accuracy", 0.5}}},
                         {.step = 140, .epoch = 1, .metrics = {{"accuracy", 0.75}}}};
  const auto read = ParseProgress(ProgressJson(written));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(std::isnan(read->loss.value_or(0)));
  EXPECT_EQ(read->warning, "the loss is 62");
  EXPECT_EQ(read->waiting, "worker-0 waits");
  EXPECT_EQ(read->evaluations, written.evaluations);
}

TEST(ProgressClient, AServerThatAnswersIsReadAndOneThatDoesNotExistIsAnError) {
  auto server = ProgressServer::Start({.host = "127.0.0.1"});
  ASSERT_TRUE(server.ok()) << server.status();
  Progress progress;
  progress.step = 7;
  (*server)->Update(progress);
  const auto port = static_cast<uint16_t>((*server)->port());
  const auto read = FetchProgress(port, absl::Seconds(10));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 7);
  server->reset();
  EXPECT_FALSE(FetchProgress(port, absl::Seconds(1)).ok());
}

}  // namespace
}  // namespace trainyard::engine
