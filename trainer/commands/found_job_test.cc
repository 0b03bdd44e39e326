#include "trainer/commands/found_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

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
              HasSubstr("one.csv has 5 rows of 1 class (a), expected two classes or more"));
}

// As competitions give them: test.csv is there to be predicted.
TEST_F(FoundJobTest, TheColumnThatTheTestsLackIsTheLabel) {
  std::string train = "id,survived,age,port\n";
  std::string test = "id,age,port\n";
  for (int i = 0; i < 40; ++i) {
    train += std::to_string(i) + (i % 3 == 0 ? ",1," : ",0,") + std::to_string(20 + i % 7) + (i % 2 == 0 ? ",S\n" : ",C\n");
    test += std::to_string(i + 40) + ",30,S\n";
  }
  Write("train.csv", train);
  Write("test.csv", test);
  const absl::StatusOr<FoundJob> job = FindJob(dir_);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->text, AllOf(HasSubstr("label: \"survived\"\n"), HasSubstr("evalFraction: 0.2\n"), Not(HasSubstr("eval: {"))));
  EXPECT_THAT(job->data.notes,
              ElementsAre("\"test.csv\" has no column \"survived\": it is no evaluation; `predict` gives the labels of its rows"));
  const absl::StatusOr<FoundJob> wanted = FindJob(dir_, "port");
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_THAT(wanted->text, HasSubstr("label: \"port\"\n"));
  EXPECT_THAT(std::string(FindJob(dir_, "prot").status().message()), HasSubstr("has no column \"prot\"; did you mean \"port\"?"));
}

TEST_F(FoundJobTest, CellsThatAreEmptyInTheOtherFileAloneHaveTheirMeanToo) {
  std::string train = "age,fare,port,y\n";
  for (int i = 0; i < 40; ++i) train += std::to_string(20 + i % 7) + ",7.5," + (i % 2 == 0 ? "S,a\n" : "C,b\n");
  Write("train.csv", train);
  const std::string number = "{name: \"fare\", type: number, missing: mean}";
  const std::string category = "{name: \"port\", type: category, missing: mean}";
  for (const char* other : {"age,fare,port\n30,,S\n31,NA,\n", "age,fare,port,y\n30,,S,a\n31,8,,b\n"}) {
    Write("test.csv", other);
    const absl::StatusOr<FoundJob> job = FindJob(dir_);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_THAT(job->text, AllOf(HasSubstr(number), HasSubstr(category), HasSubstr("{name: \"age\", type: number}")));
  }
}

TEST_F(FoundJobTest, ANumberToLearnIsStandardised) {
  std::string text = "rooms,price\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i % 6) + "," + std::to_string(100'000 + 1000.5 * i) + "\n";
  EXPECT_THAT(Find("prices.csv", text).text, AllOf(HasSubstr("standardizeLabel: true"), HasSubstr("meanSquaredError")));
  EXPECT_THAT(Find("classes.csv", Rows(20)).text, Not(HasSubstr("standardizeLabel")));
}

TEST_F(FoundJobTest, ALabelOfPricesAsTextsIsRefused) {
  std::string prices = "rooms,price\n";
  std::string words = "rooms,price\n";
  for (int i = 0; i < 40; ++i) {
    prices += std::to_string(i % 6) + ",\"$1," + std::to_string(100 + i) + "\"\n";
    words += std::to_string(i % 6) + "," + (i == 3 ? "NA" : std::to_string(100.5 + i)) + "\n";
  }
  EXPECT_THAT(ErrorOf("prices.csv", prices),
              HasSubstr("prices.csv: the label \"price\" has 40 different values in 40 rows, such as \"$1,100\": too many for classes"));
  std::string numbers = "rooms,stars\n";
  for (int i = 0; i < 11; ++i) numbers += std::to_string(i) + "," + std::to_string(i) + "\n";
  EXPECT_THAT(ErrorOf("numbers.csv", numbers), HasSubstr("leaves none for the evaluation"));
  EXPECT_THAT(ErrorOf("words.csv", words), HasSubstr("the label \"price\" has 39 numbers and 1 word for none, such as NA"));
}

TEST_F(FoundJobTest, ATableWithoutAUsefulColumnSaysWhatItLeavesOut) {
  std::string text = "time,value\n";
  for (int i = 0; i < 40; ++i) text += "12:" + std::to_string(10 + i) + "," + std::to_string(0.5 + i) + "\n";
  EXPECT_THAT(ErrorOf("series.csv", text), AllOf(HasSubstr("has no column beside the label \"value\" that a model could learn from"),
                                                 HasSubstr("; \"time\" is left out: each of its texts is there once")));
}

TEST_F(FoundJobTest, PicturesBesideATableOfTheirClassesAreTold) {
  std::string text = "file,breed\n";
  for (int i = 0; i < 20; ++i) {
    text += std::to_string(i) + "x.png,dog\n";
    Write(std::to_string(i) + "x.png", "");
  }
  Write("labels.csv", text);
  EXPECT_THAT(std::string(FindJob(dir_).status().message()), HasSubstr("; pictures, as the 20 beside it, go into a folder for each class"));
}

TEST_F(FoundJobTest, ALabelIsNamedForRowsAlone) {
  Write("input.txt", std::string(5000, 'a') + std::string(5000, 'b'));
  EXPECT_THAT(std::string(FindJob(dir_, "price").status().message()), HasSubstr("--label: found \"price\" for"));
}

TEST_F(FoundJobTest, ATableOfAHeaderAloneIsRefused) {
  EXPECT_THAT(ErrorOf("header.csv", "length,colour,kind\n"), HasSubstr("has 1 row, expected a header with rows below it, or several rows"));
}

TEST_F(FoundJobTest, ANumberColumnWithABadCellIsTold) {
  const FoundJob typo = Find("typo.csv", Rows(20) + "30x,a\n");
  EXPECT_THAT(typo.data.notes, ElementsAre("column \"age\" has 20 numbers and 1 text, such as \"30x\" in " + dir_ +
                                           "/typo.csv:22: it is taken for categories"));
  EXPECT_THAT(typo.text, HasSubstr("# \"age\" has 20 numbers and 1 text, such as \"30x\" in "));
  EXPECT_THAT(Find("good.csv", Rows(20)).data.notes, IsEmpty());
  const FoundJob many = Find(
      "many.csv", "c,age,class\n1,0,a\n" + [] {
        std::string rows;
        for (int i = 1; i < 150; ++i) rows += "1," + std::to_string(i) + (i == 7 ? "x,a\n" : ",b\n");
        return rows;
      }());
  ASSERT_THAT(many.data.notes, SizeIs(1));
  EXPECT_THAT(many.data.notes[0], HasSubstr("it is left out"));
}

TEST_F(FoundJobTest, ALabelWithABadCellIsTold) {
  std::string text = "x,y\n";
  for (int i = 0; i < 40; ++i) text += std::to_string(i) + "," + (i < 20 ? "0.5\n" : "1.5\n");
  const FoundJob job = Find("label.csv", text + "1,1.5.\n2,1.5.\n3,1.5.\n");
  ASSERT_THAT(job.data.notes, SizeIs(1));
  EXPECT_THAT(job.data.notes[0], AllOf(HasSubstr("the label \"y\" has 40 numbers and 3 texts"), HasSubstr("taken for classes")));
}

TEST_F(FoundJobTest, TheDelimiterIsFound) {
  std::string text = "x;y;class\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + ",5;2;" + (i % 2 == 0 ? "a\n" : "b\n");
  const FoundJob job = Find("eu.csv", text);
  EXPECT_THAT(job.text, HasSubstr("delimiter: \";\""));
  text = "x;class\n";
  for (int i = 0; i < 150; ++i) text += std::to_string(i) + (i % 2 == 0 ? ",500;a\n" : ",500;b\n");
  EXPECT_THAT(ErrorOf("left_out.csv", text), HasSubstr("its delimiter is \";\"; column \"x\" has 150 numbers with a comma"));
  std::string tabs = Rows(20);
  std::ranges::replace(tabs, ',', '\t');
  EXPECT_THAT(Find("tabs.csv", tabs).text, HasSubstr("delimiter: \"\\t\""));
  EXPECT_THAT(ErrorOf("one.csv", "class\na\nb\n"), HasSubstr("that a model could learn from; its delimiter is \",\""));
}

TEST_F(FoundJobTest, ColumnsWithoutANameOfTheirOwnGoByNumber) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += std::to_string(i % 4) + ",0.5,2," + (i % 2 == 0 ? "a\n" : "b\n");
  const FoundJob pandas = Find("pandas.csv", ",u,v,class\n" + rows);
  EXPECT_THAT(pandas.text, AllOf(HasSubstr("- {name: 0, type: number}  # has no name\n"), HasSubstr("label: \"class\"\n")));
  const FoundJob same = Find("same.csv", "u,u,v,class\n" + rows);
  EXPECT_THAT(same.text, AllOf(HasSubstr("- {name: 1, type: number}  # one of several \"u\"\n"), HasSubstr("- {name: \"v\", type")));
  EXPECT_THAT(Find("label.csv", "u,v,w,\n" + rows).text, HasSubstr("label: 3  # has no name\n"));
  EXPECT_THAT(Find("labels.csv", "class,v,w,class\n" + rows).text, HasSubstr("label: 0  # one of several \"class\""));
}

TEST_F(FoundJobTest, ASortedFileWhoseEvaluationLacksClassesIsTold) {
  constexpr unsigned char kExamples = 40;
  const auto write = [this](int run) {  // labels 0 to 3, of so many examples in a row
    Write("a-images-idx3-ubyte",
          std::string({0, 0, 8, 3, 0, 0, 0, kExamples, 0, 0, 0, 2, 0, 0, 0, 2}) + std::string(size_t{kExamples} * 4, '\7'));
    std::string labels({0, 0, 8, 1, 0, 0, 0, kExamples});
    for (int i = 0; i < kExamples; ++i) labels += static_cast<char>(i / run % 4);
    Write("a-labels-idx1-ubyte", labels);
    const absl::StatusOr<FoundJob> job = FindJob(dir_);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(FoundJob());
  };
  const FoundJob sorted = write(10);
  EXPECT_THAT(sorted.data.notes, ElementsAre("of 4 classes the training's range has 4, the evaluation's 1: shuffle the file if it is "
                                             "sorted, or give other ranges"));
  EXPECT_THAT(sorted.text, HasSubstr("# of 4 classes the training's range has 4, the evaluation's 1: "));
  EXPECT_THAT(write(1).data.notes, IsEmpty());
}

TEST_F(FoundJobTest, FilesThatAreLeftOutAreTold) {
  Write("a.csv", Rows(20));
  Write("test.csv", Rows(20));
  EXPECT_THAT(FindJob(dir_)->data.notes, IsEmpty());
  Write("b.csv", Rows(20));
  const absl::StatusOr<FoundJob> job = FindJob(dir_);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->data.notes,
              ElementsAre("\"a.csv\" trains; 1 file is left out: \"b.csv\"; train.files takes several files of the same kind"));
  EXPECT_THAT(job->text, HasSubstr("# \"a.csv\" trains; 1 file is left out: \"b.csv\"\n"));
}

TEST_F(FoundJobTest, PackedTablesAndTextsAreFound) {
  const auto pack = [this](const std::string& name, const std::string& text) {
    gzFile file = gzopen((dir_ + "/" + name).c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    const absl::StatusOr<FoundJob> job = FindJob(dir_ + "/" + name);
    return job.ok() ? job->data.summary : job.status().ToString();
  };
  EXPECT_EQ(pack("rows.csv.gz", Rows(20)), "20 rows of 2 classes (a, b)");
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "abcd";
  EXPECT_EQ(pack("words.TXT.gz", text), "4000 characters of text, 4 different ones");
}

TEST_F(FoundJobTest, AColumnOfTextsThatAreThereOnceIsLeftOut) {
  std::string text = "day,age,class\n";
  for (int i = 0; i < 20; ++i) text += "day " + std::to_string(i) + "," + std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
  const FoundJob job = Find("days.csv", text);
  EXPECT_THAT(job.text, AllOf(HasSubstr("# \"day\" is left out: each of its texts is there once"), Not(HasSubstr("{name: \"day\""))));
  EXPECT_THAT(job.text, HasSubstr("{name: \"age\", type: number}"));
}

TEST_F(FoundJobTest, DecimalCommasAreFound) {
  std::string text = "x;y;class\n";
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + ",5;2;" + (i % 2 == 0 ? "a\n" : "b\n");
  const FoundJob job = Find("eu.csv", text);
  EXPECT_THAT(job.text, AllOf(HasSubstr("decimal: comma"), HasSubstr("- {name: \"x\", type: number}")));
  EXPECT_THAT(job.data.notes, IsEmpty());
  const FoundJob mixed = Find("mixed.csv", text + "0.5;2;a\n");
  EXPECT_THAT(mixed.text, Not(HasSubstr("decimal:")));
  EXPECT_THAT(mixed.data.notes, ElementsAre(HasSubstr("has 1 number and 20 numbers with a comma, such as \"0,5\"")));
}

}  // namespace
}  // namespace trainyard::engine
