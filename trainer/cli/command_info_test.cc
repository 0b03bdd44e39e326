#include "trainer/cli/command_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "trainer/cli/completion.h"
#include "trainer/cli/help_text.h"
#include "trainer/cli/man_page.h"
#include "trainer/cli/run_command_line.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// "p launch [--output DIR] [--mode fast|slow] FILE", "p data convert --shards N", "p completion
// SHELL", "p man".
class Program {
 public:
  Program() {
    SetUpHelp(app_);
    app_.require_subcommand(1);
    CLI::App* launch = app_.add_subcommand("launch", "run it: don't [wait]");
    launch->add_option("FILE", file, "the job")->type_name("FILE")->required();
    launch->add_option("--output", output, "where to")->type_name("DIR");
    OneOf(launch->add_option("--mode", mode, "how"), {"fast", "slow"})->capture_default_str();
    launch->footer("p launch a.yaml\np launch b.yaml --mode slow");
    launch->callback([this] { ran = true; });
    CLI::App* convert = app_.add_subcommand("data", "data sets")->require_subcommand(1)->add_subcommand("convert", "write a store");
    InRange(convert->add_option("--shards", shards, "files"), 1, 8)->capture_default_str();
    app_.add_subcommand("convert", "of the same name");
    AddShellCommands(app_, "1.2");
  }
  CommandInfo info() const { return Describe(app_); }
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "p");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    return RunCommandLine(app_, static_cast<int>(argv.size()), argv.data(), exit_code);
  }

  std::string file;
  std::string output;
  std::string mode = "fast";
  int shards = 2;
  bool ran = false;
  int exit_code = 0;

 private:
  CLI::App app_{"does it", "p"};
};

TEST(CommandInfo, HasCommandsFlagsValuesAndDefaults) {
  const CommandInfo info = Program().info();
  ASSERT_EQ(info.commands.size(), 5U);
  const CommandInfo& launch = info.commands[0];
  ASSERT_EQ(launch.positionals.size(), 1U);
  EXPECT_EQ(launch.positionals[0].name, "FILE");
  EXPECT_TRUE(launch.positionals[0].required);
  ASSERT_EQ(launch.flags.size(), 3U);
  EXPECT_EQ(Spelling(launch.flags[0]), "-h, --help");
  EXPECT_EQ(Spelling(launch.flags[1]), "--output DIR");
  EXPECT_EQ(Spelling(launch.flags[2]), "--mode fast|slow");
  EXPECT_EQ(DescriptionOf(launch.flags[2]), "how (default: fast)");
  EXPECT_THAT(WordsOf(launch.flags[2]), ElementsAre("fast", "slow"));
  EXPECT_EQ(Spelling(info.commands[1].commands[0].flags[1]), "--shards N");
}

TEST(RunCommandLine, RunsTheCommandOrSaysWhatIsWrongAndRunsNothing) {
  Program good;
  EXPECT_EQ(good.Run({"launch", "a.yaml", "--mode", "SLOW"}), 0);
  EXPECT_TRUE(good.ran);
  EXPECT_EQ(good.mode, "slow");
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {}, {"lanch"}, {"launch"}, {"launch", "a", "--mode", "sloww"}, {"launch", "a", "--ouput", "b"}, {"data"}}) {
    Program program;
    EXPECT_EQ(program.Run(wrong), kWrongCommandLine);
    EXPECT_FALSE(program.ran);
  }
}

TEST(RunCommandLine, AWrongWordAndANumberOutsideItsRangeAreTold) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Program().Run({"launch", "a", "--mode", "sloww"}), kWrongCommandLine);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(StartsWith("error: "), HasSubstr("--mode: found \"sloww\", expected one of fast, slow; did you mean \"slow\"?"),
                    HasSubstr("p launch --help")));
  testing::internal::CaptureStderr();
  EXPECT_EQ(Program().Run({"data", "convert", "--shards", "9"}), kWrongCommandLine);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--shards: found \"9\", expected a number from 1 to 8"));
}

TEST(HelpText, HasUsageFlagsAndExamplesInAHundredColumns) {
  CommandInfo launch = Program().info().commands[0];
  launch.flags[1].description = std::string(150, 'x').replace(60, 1, " ").replace(100, 1, " ");
  const std::string text = HelpText(launch, "p launch", {});
  EXPECT_THAT(text, AllOf(HasSubstr("Usage: p launch [FLAGS] FILE\n"), HasSubstr("  FILE                    the job\n"),
                          HasSubstr("\nExamples:\n  p launch a.yaml\n  p launch b.yaml --mode slow\n"), Not(HasSubstr("\033["))));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_THAT(HelpText(launch, "p launch", {.on = true}), HasSubstr("\033[1mUsage:\033[0m"));
}

TEST(ManPage, HasEveryCommandAndNoTextThatIsAMacro) {
  const std::string page = ManPage(Program().info(), "1.2");
  EXPECT_THAT(page, AllOf(StartsWith(".TH P 1 "), HasSubstr(".SS launch FILE\n"), HasSubstr(".SS data convert\n"),
                          HasSubstr("\\-\\-shards N"), HasSubstr("p launch b.yaml \\-\\-mode slow")));
}

TEST(Completion, OffersCommandsFlagsWordsFilesAndFolders) {
  const CommandInfo info = Program().info();
  const std::string bash = BashCompletion(info);
  EXPECT_THAT(
      bash, AllOf(HasSubstr("'data convert') command='data convert' ;;"), HasSubstr("'launch --mode') COMPREPLY=($(compgen -W 'fast slow'"),
                  HasSubstr("'launch --output') COMPREPLY=($(compgen -d"), HasSubstr("complete -o filenames -F _p p\n")));
  EXPECT_THAT(ZshCompletion(info), AllOf(StartsWith("#compdef p\n"), HasSubstr("'*--mode[how]:fast|slow:(fast slow)'"),
                                         HasSubstr("'launch:run it\\: don'\\''t \\[wait\\]'")));
  EXPECT_THAT(FishCompletion(info), AllOf(HasSubstr("-n '__fish_seen_subcommand_from launch' -l mode -x -a 'fast slow' -d 'how'"),
                                          HasSubstr("-n '__fish_seen_subcommand_from convert; and not __fish_seen_subcommand_from data'"),
                                          HasSubstr("-d 'run it: don\\'t [wait]'")));
}

// The words that bash offers for a line, whose last word is being typed.
std::string BashOffers(const std::string& script, const std::string& words, int current) {
  const std::string path = testing::TempDir() + "/completion.bash";
  std::ofstream(path) << script << "COMP_WORDS=(" << words << ")\nCOMP_CWORD=" << current << "\n_p\necho \"${COMPREPLY[*]}\"\n";
  FILE* bash = popen(("bash --norc " + path + " 2>&1").c_str(), "r");
  char line[1024] = "";
  EXPECT_NE(std::fgets(line, sizeof(line), bash), nullptr);
  EXPECT_EQ(pclose(bash), 0);
  return line;
}

TEST(Completion, BashCompletesALine) {
  const std::string script = BashCompletion(Program().info());
  EXPECT_EQ(BashOffers(script, "p la", 1), "launch\n");
  EXPECT_EQ(BashOffers(script, "p launch --mode s", 3), "slow\n");
  EXPECT_EQ(BashOffers(script, "p launch --o", 2), "--output\n");
  EXPECT_EQ(BashOffers(script, "p data c", 2), "convert\n");
  EXPECT_EQ(BashOffers(script, "p data convert --s", 3), "--shards\n");
  EXPECT_EQ(BashOffers(script, "p completion z", 2), "zsh\n");
}

}  // namespace
}  // namespace trainyard::engine
