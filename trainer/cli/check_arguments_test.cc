#include "trainer/cli/check_arguments.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

CommandInfo SmallProgram() {
  const FlagInfo set{.name = "--set", .value = "PATH=VALUE"};
  const FlagInfo help{.name = "--help", .short_name = "-h"};
  const CommandInfo launch{.name = "launch",
                           .positionals = {{.name = "FILE", .value = "FILE", .description = "the job", .required = true}},
                           .flags = {help, set, {.name = "--output", .value = "DIR"}, {.name = "--rows", .value = "N"}}};
  const CommandInfo convert{.name = "convert",
                            .flags = {help, {.name = "--job", .value = "FILE", .description = "the job", .required = true}}};
  const CommandInfo generate{
      .name = "generate", .positionals = {{.name = "DIR", .value = "DIR", .required = true}}, .flags = {{.name = "--heat", .value = "X"}}};
  const CommandInfo compare{
      .name = "compare",
      .positionals = {{.name = "DIR", .value = "DIR", .description = "two or more runs", .required = true, .repeats = true, .least = 2}}};
  const CommandInfo bench{.name = "bench", .flags = {{.name = "--batch", .value = "N"}}, .commands = {{.name = "sums"}}};
  return {.name = "p",
          .flags = {help},
          .commands = {launch, {.name = "data", .commands = {convert}, .needs_command = true}, generate, compare, bench},
          .needs_command = true};
}

std::string Mistakes(const std::vector<std::string>& arguments) { return std::string(CheckArguments(SmallProgram(), arguments).message()); }

TEST(CheckArguments, AGoodLineHasNoMistakes) {
  EXPECT_EQ(Mistakes({"launch", "job.yaml", "--set", "a=-1", "--set=b=2", "--output", "out", "--rows", "3"}), "");
  EXPECT_EQ(Mistakes({"data", "convert", "--job=job.yaml"}), "");
  EXPECT_EQ(Mistakes({"generate", "out", "--heat", "-1e-3"}), "");
  EXPECT_EQ(Mistakes({"bench"}), "");
  EXPECT_EQ(Mistakes({"bench", "--batch", "5"}), "");
  EXPECT_EQ(Mistakes({"bench", "sums"}), "");
}

TEST(CheckArguments, BehindTwoDashesAnArgumentIsNoFlag) {
  EXPECT_EQ(Mistakes({"launch", "--output", "out", "--", "-job.yaml"}), "");
  EXPECT_EQ(Mistakes({"launch", "--", "-job.yaml", "--set"}), "launch: found \"--set\", expected nothing there");
  EXPECT_EQ(Mistakes({"launch", "--"}), "launch: FILE: missing, expected the job");
}

TEST(CheckArguments, TooFewOfAnArgumentThatRepeatsAreCounted) {
  EXPECT_EQ(Mistakes({"compare", "a"}), "compare: DIR: found 1, expected two or more runs");
  EXPECT_EQ(Mistakes({"compare"}), "compare: DIR: missing, expected two or more runs");
  EXPECT_EQ(Mistakes({"compare", "a", "b"}), "");
}

TEST(CheckArguments, AnEmptyFileOrFolderIsNamed) {
  EXPECT_EQ(Mistakes({"launch", "job.yaml", "--output", ""}), "launch: --output: found \"\", expected DIR");
  EXPECT_EQ(Mistakes({"launch", "", "--output=out"}), "launch: FILE: found \"\", expected the job");
}

TEST(CheckArguments, AMistypedCommandIsSuggested) {
  EXPECT_EQ(Mistakes({"lanch", "job.yaml"}), "unknown command \"lanch\"; did you mean \"launch\"?");
  EXPECT_EQ(Mistakes({"zzz"}), "unknown command \"zzz\"; known here: launch, data, generate, compare, bench");
  EXPECT_EQ(Mistakes({"data", "covert"}), "data: unknown command \"covert\"; did you mean \"convert\"?");
}

TEST(CheckArguments, AMistypedFlagIsSuggested) {
  EXPECT_EQ(Mistakes({"launch", "job.yaml", "--ouput", "out"}), "launch: unknown flag \"--ouput\"; did you mean \"--output\"?");
  EXPECT_EQ(Mistakes({"launch", "job.yaml", "--qqqqqqqq=1"}),
            "launch: unknown flag \"--qqqqqqqq\"; known here: --help, --set, --output, --rows");
}

TEST(CheckArguments, AllMistakesAreTold) {
  EXPECT_EQ(Mistakes({"launch", "--row=3", "--rows", "three", "a", "b"}),
            "launch: unknown flag \"--row\"; did you mean \"--rows\"?\n"
            "launch: --rows: found \"three\", expected a whole number\n"
            "launch: found \"b\", expected nothing there");
}

TEST(CheckArguments, MissingArgumentsAndValuesAreNamed) {
  EXPECT_EQ(Mistakes({"launch"}), "launch: FILE: missing, expected the job");
  EXPECT_EQ(Mistakes({"launch", "job.yaml", "--output"}), "launch: --output: missing, expected DIR behind it");
  EXPECT_EQ(Mistakes({"data", "convert"}), "data convert: --job: missing, expected the job");
  EXPECT_EQ(Mistakes({"data"}), "data: missing, expected a command: convert");
  EXPECT_EQ(Mistakes({}), "missing, expected a command: launch, data, generate, compare, bench");
}

TEST(CheckArguments, WhatStandsBehindHelpIsNotChecked) {
  EXPECT_EQ(Mistakes({"launch", "--help", "--nothing"}), "");
  EXPECT_EQ(Mistakes({"--version"}), "");
}

}  // namespace
}  // namespace trainyard::engine
