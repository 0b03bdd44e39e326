#include "trainer/job/check_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckInputsTest : public ::testing::Test {
 protected:
  CheckInputsTest() : dir_(::testing::TempDir() + "/check-inputs") {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_ + "/folder");
    std::ofstream(dir_ + "/images.idx") << "x";
    std::ofstream(dir_ + "/labels.idx") << "x";
    training_.data.dir = dir_;
    training_.data.train.images = "images.idx";
    training_.data.train.labels = "labels.idx";
  }
  std::string Errors() {
    FieldErrors errors;
    CheckInputs(training_, errors);
    return std::string(errors.ToStatus("job.yaml").message());
  }

  const std::string dir_;
  TrainingConfig training_;
};

TEST_F(CheckInputsTest, FilesThatAreThereAreNoMistake) { EXPECT_EQ(Errors(), ""); }

TEST_F(CheckInputsTest, EveryMissingFileIsNamedAtItsFieldWithANearOne) {
  training_.data.train.images = "image.idx";
  training_.data.eval = training_.data.train;
  training_.init_from = "/no/such/start.safetensors";
  EXPECT_THAT(Errors(), AllOf(HasSubstr("job.yaml: 3 errors\n"),
                              HasSubstr("spec.training.data.train.images: cannot open " + dir_ +
                                        "/image.idx: No such file or directory; did you mean \"" + dir_ + "/images.idx\"?"),
                              HasSubstr("spec.training.data.eval.images: cannot open"),
                              HasSubstr("spec.training.initFrom: cannot open /no/such/start.safetensors: No such file or directory")));
}

TEST_F(CheckInputsTest, ARelativeNameIsToldWithTheFolderWhereItBegins) {
  training_.data.dir = "no-such-folder";
  EXPECT_THAT(Errors(), HasSubstr("begin at the working directory, " + std::filesystem::current_path().string()));
}

TEST_F(CheckInputsTest, AFolderIsNoFileAndAFileNoStore) {
  training_.data.train.labels = "folder";
  EXPECT_THAT(Errors(), HasSubstr("data.train.labels: cannot open " + dir_ + "/folder: it is a folder, expected a file"));
  EXPECT_THAT(Errors(), ::testing::Not(HasSubstr("did you mean")));
  training_.data.format = DataConfig::Format::kStore;
  training_.data.train.folder = "images.idx";
  EXPECT_THAT(Errors(), HasSubstr("data.train.folder: cannot open " + dir_ + "/images.idx: it is a file, expected a folder"));
}

TEST_F(CheckInputsTest, EachOfAListOfFilesHasItsPlace) {
  training_.data.format = DataConfig::Format::kText;
  training_.data.train.files = {"images.idx", "b.txt"};
  EXPECT_THAT(Errors(), HasSubstr("spec.training.data.train.files[1]: cannot open"));
}

}  // namespace
}  // namespace trainyard::engine
