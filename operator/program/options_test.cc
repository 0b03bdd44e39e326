#include "operator/program/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;

// The flags of `line`; the error of a wrong one goes to `error`.
Options Parsed(const std::string& line, std::string* error = nullptr) {
  Options options;
  CLI::App app;
  AddFlags(app, options);
  try {
    app.parse(line);
  } catch (const CLI::ParseError& wrong) {
    const std::string told = DescribeMistake(app, wrong);
    EXPECT_NE(error, nullptr) << told;
    if (error != nullptr) *error = told;
  }
  return options;
}

TEST(Options, TheDefaultImageIsTheOneThatTheReadmeBuilds) { EXPECT_EQ(Options().trainer_image, "trainyard/trainer:0.1"); }

TEST(Options, SayNothingAndTheDefaultsHold) {
  const Options options = Parsed("");
  EXPECT_EQ(options.workers, 16);
  EXPECT_TRUE(options.leader_elect);
  EXPECT_TRUE(options.watch_nodes);
  EXPECT_TRUE(options.namespaces.empty());
}

TEST(Options, NamespacesAreOneListAndSwitchesHaveANo) {
  const Options options = Parsed("--namespaces a,b --no-leader-elect --no-watch-nodes");
  EXPECT_THAT(options.namespaces, ElementsAre("a", "b"));
  EXPECT_FALSE(options.leader_elect);
  EXPECT_FALSE(options.watch_nodes);
}

TEST(Options, EachFlagIsOnThePageOfTheOperator) {
  std::ifstream file("docs/operator.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const size_t begin = page.find("\n## Flags\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  Options options;
  CLI::App app;
  AddFlags(app, options);
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) EXPECT_THAT(section, ::testing::HasSubstr("`--" + name + "`"));
  }
}

struct Mistake {
  const char* line;
  const char* told;
};

TEST(Options, AMistakeIsToldWithWhatWasFoundAndExpected) {
  for (const auto& [line, told] : {
           Mistake{"--workers 300", R"(--workers: found "300", expected a whole number from 1 to 64)"},
           Mistake{"--workers 2.5", R"(--workers: found "2.5", expected a whole number from 1 to 64)"},
           Mistake{"--workers=", "--workers: missing, expected a value behind it"},
           Mistake{"--workers", "--workers: missing, expected a value behind it"},
           Mistake{"--qps=-1", R"(--qps: found "-1", expected a number, 0 or more)"},
           Mistake{"--qps nan", R"(--qps: found "nan", expected a number, 0 or more)"},
           Mistake{"--burst 0", R"(--burst: found "0", expected a number above 0)"},
           Mistake{"--progress often", R"(--progress: found "often", expected one of auto, direct, proxy, off)"},
           Mistake{"--page-address 8081", R"(--page-address: found "8081", expected HOST:PORT, such as 127.0.0.1:8081 or [::]:8081)"},
           Mistake{"--leader-elect=maybe", R"(--leader-elect: found "maybe", expected true or false)"},
           Mistake{"--worker=4", R"(unknown flag "--worker"; did you mean "--workers"?)"},
           Mistake{"--colour blue", "unknown flag \"--colour\"\nfound \"blue\", expected flags only"},
       }) {
    std::string error;
    Parsed(line, &error);
    EXPECT_EQ(error, told) << line;
  }
}

TEST(Options, TheLastOfTwoValuesHoldsAndListsGrow) {
  const Options options =
      Parsed("--workers=2 --log-level=info --namespaces=a --workers=4 --namespaces=b,c --leader-elect --no-leader-elect");
  EXPECT_EQ(options.workers, 4);
  EXPECT_FALSE(options.leader_elect);
  EXPECT_THAT(options.namespaces, ElementsAre("a", "b", "c"));
}

TEST(Options, ThereIsNoPageUnlessItIsAskedFor) { EXPECT_EQ(Parsed("").page_address, ""); }

}  // namespace
}  // namespace trainyard::control
