#include "trainer/train/settings_of_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

TEST(SettingsOfJob, HaveWhatChangesTheResultAndNotTheFolder) {
  TrainingConfig config;
  config.seed = 7;
  config.data_json = R"({"format": "idx", "dir": "/here", "train": {"range": [0, 10]}})";
  const JobSettings settings = SettingsOf(config);
  EXPECT_THAT(settings, Contains(Pair("seed", "7")));
  EXPECT_THAT(settings, Contains(Pair("data.train", R"({"range":[0,10]})")));
  EXPECT_THAT(settings, Contains(Key("optimizer.clipNorm")));
  EXPECT_THAT(settings, Not(Contains(Key("data.dir"))));
}

TEST(SettingsOfJob, ALongValueIsToldByItsSum) {
  TrainingConfig config;
  config.model_json = R"({"layers": [")" + std::string(500, 'x') + R"("]})";
  EXPECT_THAT(SettingsOf(config), Contains(Pair("model.layers", StartsWith("504 bytes of SHA-256 "))));
  JobSettings one = SettingsOf(config);
  config.model_json.back() = ' ';
  config.model_json += "}";
  config.model_json[20] = 'y';
  EXPECT_EQ(FirstDifference(one, SettingsOf(config))->name, "model.layers");
}

}  // namespace
}  // namespace trainyard::engine
