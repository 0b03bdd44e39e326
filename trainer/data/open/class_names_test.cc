#include "trainer/data/open/class_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

class ClassNames : public ::testing::Test {
 protected:
  ClassNames() {
    config_.format = DataConfig::Format::kCifar10;
    config_.dir = ::testing::TempDir() + "/class_names";
    std::filesystem::remove_all(config_.dir);
    std::filesystem::create_directories(config_.dir);
  }
  void WriteMeta(const std::string& text) { std::ofstream(config_.dir + "/batches.meta.txt") << text; }
  DataConfig config_;
};

TEST_F(ClassNames, AreTheJobs) {
  config_.classes = {"x", "y"};
  EXPECT_THAT(*ClassNamesOf(config_, 2), ElementsAre("x", "y"));
}

TEST_F(ClassNames, OfCifar10StandBesideItsFiles) {
  WriteMeta("airplane\n bird \r\n\n");
  EXPECT_THAT(*ClassNamesOf(config_, 2), ElementsAre("airplane", "bird"));
}

TEST_F(ClassNames, AreNumbersWhereThereAreNone) {
  EXPECT_THAT(*ClassNamesOf(config_, 3), ElementsAre("0", "1", "2"));
  WriteMeta("one\ntwo\n");
  EXPECT_THAT(*ClassNamesOf(config_, 3), ElementsAre("0", "1", "2"));
  WriteMeta("one\ntwo\nthr\033[2Jee\n");
  EXPECT_THAT(*ClassNamesOf(config_, 3), ElementsAre("0", "1", "2"));
}

}  // namespace
}  // namespace trainyard::engine
