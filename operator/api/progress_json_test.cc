#include "operator/api/progress_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(ProgressJson, ZeroIsANumberLikeOthers) {
  const std::optional<Progress> progress = ParseProgress(R"({"step": 0, "totalSteps": 10, "batchesPerSecond": 0, "loss": 0})");
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->step, 0);
  EXPECT_EQ(progress->percent, 0);
  EXPECT_EQ(progress->batches_per_second, 0);
  EXPECT_EQ(progress->loss, 0);
  EXPECT_FALSE(ParseProgress(R"({"step": -1})").has_value());
}

TEST(ProgressJson, ReadsEveryFieldOfTheContract) {
  const auto progress =
      ParseProgress(R"({"step": 1200, "totalSteps": 5600, "epoch": 2, "percent": 21.43, "loss": 0.3123456, "metrics": {"accuracy": 0.93},
      "batchesPerSecond": 52.123456, "examplesPerSecond": 6668.8123, "etaSeconds": 84.4, "lastCheckpointStep": 1000, "bestCheckpointStep": 800, "stoppedEarly": "loss has not improved", "stragglers": ["worker-3"], "new": {}})");
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->step, 1200);
  EXPECT_EQ(progress->total_steps, 5600);
  EXPECT_EQ(progress->percent, 21.4);
  EXPECT_EQ(progress->loss, 0.31235);
  EXPECT_THAT(progress->metrics, ElementsAre(Pair("accuracy", 0.93)));
  EXPECT_EQ(progress->examples_per_second, 6668.8);
  EXPECT_EQ(progress->eta_seconds, 84);
  EXPECT_EQ(progress->last_checkpoint_step, 1000);
  EXPECT_EQ(progress->best_checkpoint_step, 800);
  EXPECT_EQ(progress->stopped_early, "loss has not improved");
  EXPECT_THAT(progress->stragglers, ElementsAre("worker-3"));
}

TEST(ServedVersion, IsTheFirstThatIsAvailable) {
  const auto version = [](const char* versions) {
    return ParseServedVersion(std::string(R"({"model_version_status": )") + versions + "}");
  };
  EXPECT_EQ(version(R"([{"version": "568", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}])"),
            ServedVersion{568});
  EXPECT_EQ(version(R"([{"version": "9", "state": "LOADING"}, {"version": "7", "state": "AVAILABLE"}])"), ServedVersion{7});
  for (const char* versions :
       {"[]", "{}", "null", "7", R"([{"version": "9", "state": "LOADING"}])", R"([{"version": 9, "state": "AVAILABLE"}])",
        R"([{"version": "-9", "state": "AVAILABLE"}])", R"([{"version": "", "state": "AVAILABLE"}])",
        R"([{"version": "9999999999999999999", "state": "AVAILABLE"}])", R"([{"version": "9x", "state": "AVAILABLE"}])", "[3, null, []]",
        "[[[[[[[[[[[["}) {
    EXPECT_EQ(version(versions), std::nullopt) << versions;
  }
  EXPECT_EQ(ParseServedVersion(std::string(kMaxProgressBytes + 1, ' ')), std::nullopt);
}

TEST(ProgressJson, PercentFollowsFromTheSteps) { EXPECT_EQ(ParseProgress(R"({"step": 1, "totalSteps": 8})")->percent, 12.5); }

TEST(ProgressJson, GarbageIsNoProgress) {
  for (const std::string text :
       {"", "null", "[]", "{", "{}", R"({"step": "7"})", R"({"step": -1})", R"({"step": 1e300})", R"({"step": 1.5})", "\xff\xfe"}) {
    EXPECT_FALSE(ParseProgress(text)) << text;
  }
  EXPECT_FALSE(ParseProgress(std::string(kMaxProgressBytes + 1, ' ') + R"({"step": 1})"));
  EXPECT_FALSE(ParseProgress(R"({"step": 1, "metrics": )" + std::string(1000, '[') + std::string(1000, ']') + "}"));
}

TEST(ProgressJson, FieldsOfAWrongTypeAreLeftOut) {
  const auto progress = ParseProgress(
      R"({"step": 1, "totalSteps": -5, "loss": "NaN", "epoch": [], "metrics": {"a": "b", "": 1}, "examplesPerSecond": -3, "etaSeconds": 1e99, "stragglers": [1, {}]})");
  ASSERT_TRUE(progress);
  EXPECT_EQ(*progress, Progress{.step = 1});
}

TEST(ProgressJson, MetricsAreBounded) {
  std::string text = R"({"step": 1, "metrics": {)";
  for (int i = 0; i < 100; ++i) text += (i == 0 ? "\"m" : ", \"m") + std::to_string(i) + "\": 1";
  const auto progress = ParseProgress(text + "}}");
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->metrics.size(), 16U);
}

TEST(ProgressJson, TheSameTellingAtAnotherTimeIsTheSame) {
  Progress a{.step = 1};
  Progress b{.step = 1, .updated_time = absl::UnixEpoch()};
  EXPECT_TRUE(SameProgress(a, b));
  b.loss = 1;
  EXPECT_FALSE(SameProgress(a, b));
}

}  // namespace
}  // namespace trainyard::control
