#include "trainer/launch/shell_word.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

TEST(ShellWord, AWordIsQuotedWhereAShellWouldReadMoreInIt) {
  EXPECT_EQ(ShellWord("out/a-1_b.yaml"), "out/a-1_b.yaml");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellWord("-job.yaml"), "./-job.yaml");
  EXPECT_EQ(ShellWord("-my job.yaml"), "./'-my job.yaml'");
  EXPECT_EQ(ShellWord("my photos"), "'my photos'");
  EXPECT_EQ(ShellWord("it's $HOME"), "'it'\\''s $HOME'");
}

TEST(ShellWord, OverridesAreSetAgain) {
  EXPECT_EQ(SetArguments({}), "");
  EXPECT_EQ(SetArguments(std::vector<std::string>{"training.epochs=3", "training.data.eval.range=[0, 5]"}),
            " --set training.epochs=3 --set 'training.data.eval.range=[0, 5]'");
}

}  // namespace
}  // namespace trainyard::engine
