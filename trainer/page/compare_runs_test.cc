#include "trainer/page/compare_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

using nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;

ordered_json RunWith(const std::string& rate, double accuracy) {
  return {{"name", "digits"},
          {"settings",
           ordered_json::array({ordered_json::array({"model.preset", "lenet5"}), ordered_json::array({"optimizer.learningRate", rate})})},
          {"report",
           {{"state", "Succeeded"},
            {"workers", 2},
            {"eval", {{"accuracy", accuracy}}},
            {"steps", 40},
            {"unit", "images"},
            {"unitsPerSecond", 12345.6}}},
          {"curves", ordered_json::object()},
          {"evaluations", ordered_json::array()}};
}

TEST(Compare, TellsTheFieldsThatDifferAndNoOthers) {
  const std::vector<std::string> dirs = {"runs/digits/20260101-1", "runs/digits/20260101-2/"};
  const Comparison comparison = Compare(dirs, std::vector<ordered_json>{RunWith("0.02", 0.97), RunWith("0.1", 0.5)});
  EXPECT_THAT(comparison.names, ElementsAre("20260101-1", "20260101-2"));
  ASSERT_EQ(comparison.settings.size(), 1U);
  EXPECT_THAT(comparison.settings[0],
              AllOf(Field(&ComparedValue::name, "optimizer.learningRate"), Field(&ComparedValue::values, ElementsAre("0.02", "0.1"))));
  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("optimizer.learningRate  0.02        0.1\n"));
  EXPECT_THAT(text, HasSubstr("accuracy (evaluation)  0.97        0.5\n"));
  EXPECT_THAT(text, HasSubstr("images/s               12346       12346\n"));
}

TEST(Compare, ShowsAFieldThatOneRunDoesNotHave) {
  ordered_json other = RunWith("0.02", 0.9);
  other["settings"].push_back(ordered_json::array({"seed", "7"}));
  const Comparison comparison = Compare(std::vector<std::string>{"a", "b"}, std::vector<ordered_json>{RunWith("0.02", 0.9), other});
  ASSERT_EQ(comparison.settings.size(), 1U);
  EXPECT_THAT(comparison.settings[0].values, ElementsAre("–", "7"));
}

TEST(Compare, ARunThatTrainedNoStepHasADashForItsSpeed) {
  ordered_json idle = RunWith("0.02", 0.9);
  idle["report"]["unitsPerSecond"] = 0.0;
  const Comparison comparison = Compare(std::vector<std::string>{"a", "b"}, std::vector<ordered_json>{idle, RunWith("0.02", 0.9)});
  EXPECT_THAT(ComparisonText(comparison), ::testing::ContainsRegex("images/s +– +12346"));
}

TEST(Compare, ALossThatDivergedIsShortAndThePageKnowsTheUnitOfSpeeds) {
  ordered_json diverged = RunWith("10", 0.1);
  diverged["report"]["lastLoss"] = 2.0755053208301787e35;
  const std::vector<std::string> dirs = {"a"};
  const std::vector<ordered_json> runs = {diverged};
  const Comparison comparison = Compare(dirs, runs);
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("2.076e+35"));
  EXPECT_EQ(ComparisonPage(comparison, runs)["runs"][0]["unit"], "images");
}

TEST(Compare, RunsOfTheSameFileSaySo) {
  const Comparison comparison =
      Compare(std::vector<std::string>{"a", "b"}, std::vector<ordered_json>{RunWith("0.02", 0.9), RunWith("0.02", 0.9)});
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("The job files say the same."));
}

TEST(Compare, ARunWithoutAReportHasDashes) {
  const ordered_json unfinished = {{"name", "digits"}};
  const Comparison comparison = Compare(std::vector<std::string>{"a", "b"}, std::vector<ordered_json>{RunWith("0.02", 0.9), unfinished});
  EXPECT_THAT(comparison.results.at(0), Field(&ComparedValue::values, ElementsAre("Succeeded", "–")));
}

TEST(Compare, HostileTextsMoveNoCursorAndFillNoScreen) {
  const std::string rate = "\x1b[2J" + std::string(5000, 'x');
  const Comparison comparison =
      Compare(std::vector<std::string>{"a", "b"}, std::vector<ordered_json>{RunWith(rate, 0.9), RunWith("ä", 0.9)});
  const std::string text = ComparisonText(comparison);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_LT(text.size(), 2000U);
  EXPECT_THAT(text, HasSubstr("…  ä\n"));
}

TEST(Compare, NamesOfRunsInOtherFoldersHaveWhatTellsThemApart) {
  const Comparison comparison =
      Compare(std::vector<std::string>{"/r/a/1", "/r/b/1"}, std::vector<ordered_json>{RunWith("0.02", 0.9), RunWith("0.02", 0.9)});
  EXPECT_THAT(comparison.names, ElementsAre("a/1", "b/1"));
}

}  // namespace
}  // namespace trainyard::engine
