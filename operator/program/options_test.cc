#include "operator/program/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The flags of `line`; the error of a wrong one goes to `error`.
Options Parsed(const std::string& line, std::string* error = nullptr) {
  Options options;
  CLI::App app;
  AddFlags(app, options);
  try {
    app.parse(line);
  } catch (const CLI::Error& wrong) {
    if (error != nullptr) *error = wrong.what();
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

TEST(Options, AWrongValueIsToldWithItsFlag) {
  for (const char* wrong : {"--workers 300", "--qps -1", "--progress often", "--metrics-port 70000", "--page-address 8081"}) {
    std::string error;
    Parsed(wrong, &error);
    EXPECT_THAT(error, HasSubstr(std::string(wrong).substr(0, std::string(wrong).find(' '))));
  }
}

TEST(Options, AnAddressHasAHostAndAPort) {
  EXPECT_EQ(ParseHostAndPort("127.0.0.1:8081")->port, 8081);
  EXPECT_EQ(ParseHostAndPort("[::1]:0")->host, "::1");
  for (const char* wrong : {"", "8081", ":8081", "a:", "a:70000", "a:1x", "::1:8081"}) EXPECT_FALSE(ParseHostAndPort(wrong)) << wrong;
  EXPECT_EQ(Parsed("").page_address, "") << "no page unless it is asked for";
}

}  // namespace
}  // namespace trainyard::control
