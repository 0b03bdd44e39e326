#include "trainer/commands/found_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class FoundJobTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "found_job_" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
  }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name, std::ios::binary) << text;
    return dir_ + "/" + name;
  }
  FoundJob Find(const std::string& name, const std::string& text) {
    const absl::StatusOr<FoundJob> job = FindJob(Write(name, text));
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(FoundJob());
  }
  std::string ErrorOf(const std::string& name, const std::string& text) {
    return std::string(FindJob(Write(name, text)).status().message());
  }
  // Rows of a number and one of two classes.
  static std::string Rows(int count) {
    std::string text = "age,class\n";
    for (int i = 1; i <= count; ++i) text += std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
    return text;
  }

  std::string dir_;
};

TEST_F(FoundJobTest, AJobThatWouldFailIsNotWritten) {
  EXPECT_THAT(ErrorOf("two.csv", Rows(2)),
              AllOf(HasSubstr("two.csv: a job for it would fail: spec.training.data.eval: "),
                    HasSubstr("evalFraction 0.2 of 2 rows leaves none for the evaluation"), HasSubstr("docs/data.md")));
  EXPECT_THAT(Find("enough.csv", Rows(10)).text, HasSubstr("format: csv"));
}

TEST_F(FoundJobTest, LabelsOfOneClassAreRefused) {
  EXPECT_THAT(ErrorOf("one.csv", "age,class\n1,a\n2,a\n3,a\n4,a\n5,a\n"),
              HasSubstr("one.csv has 5 rows of 1 classes (a), expected two classes or more"));
}

TEST_F(FoundJobTest, TheDelimiterIsFound) {
  std::string text = "x;y;class\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + ",5;2;" + (i % 2 == 0 ? "a\n" : "b\n");
  const FoundJob job = Find("eu.csv", text);
  EXPECT_THAT(job.text, HasSubstr("delimiter: \";\""));
  std::string tabs = Rows(20);
  std::ranges::replace(tabs, ',', '\t');
  EXPECT_THAT(Find("tabs.csv", tabs).text, HasSubstr("delimiter: \"\\t\""));
  EXPECT_THAT(ErrorOf("one.csv", "class\na\nb\n"), HasSubstr("that a model could learn from; its delimiter is \",\""));
}

}  // namespace
}  // namespace trainyard::engine
