#include "trainer/launch/replica_log.h"

#include <gtest/gtest.h>

#include <fstream>

namespace trainyard::engine {
namespace {

TEST(LogSince, GivesWholeLinesOfThisProcessOnly) {
  const std::string path = ::testing::TempDir() + "/replica-log";
  std::ofstream(path) << "first\n";
  const int64_t begin = LogSize(path);
  EXPECT_EQ(begin, 6);
  EXPECT_EQ(LogSince(path, begin, 1000), "");
  std::ofstream(path, std::ios::app) << "second\nthird\n";
  EXPECT_EQ(LogSince(path, begin, 1000), "second\nthird\n");
  EXPECT_EQ(LogSince(path, begin, 10), "third\n");
  EXPECT_EQ(LogSince(path, 0, 1000), "first\nsecond\nthird\n");
}

TEST(LogSince, AFileThatIsNotThereIsEmpty) {
  EXPECT_EQ(LogSize("/no/such/file"), 0);
  EXPECT_EQ(LogSince("/no/such/file", 0, 10), "");
}

TEST(LastLineIn, IsTheLastOneWithALevel) {
  EXPECT_EQ(LastLineIn("2026-11-22T01:22:43.123 I reads a.csv: 4%\n2026-11-22T01:22:44.123 I reads a.csv: 8%\nnoise\n"), "reads a.csv: 8%");
  EXPECT_EQ(LastLineIn("noise\n"), "");
  EXPECT_EQ(LastLineIn(""), "");
}

TEST(LastErrorIn, IsTheLastErrorWithTheLinesThatBelongToIt) {
  EXPECT_EQ(LastErrorIn("2026-11-22T01:22:43.123 E first\n"
                        "2026-11-22T01:22:43.123 I reads\n"
                        "2026-11-22T01:22:44.000 E job.yaml: 2 errors\njob.yaml:3: a\njob.yaml:4: b\n"
                        "2026-11-22T01:22:44.001 W flushed\n"),
            "job.yaml: 2 errors\njob.yaml:3: a\njob.yaml:4: b");
}

TEST(LastErrorIn, WithoutAnErrorItIsTheLastLineThatIsNoLogLine) {
  EXPECT_EQ(LastErrorIn("2026-11-22T01:22:43.123 I reads\nfile.cc:7: broken invariant: x\n"), "file.cc:7: broken invariant: x");
  EXPECT_EQ(LastErrorIn("2026-11-22T01:22:43.123 I reads\n"), "");
  EXPECT_EQ(LastErrorIn(""), "");
}

TEST(LastErrorIn, IsCutWhereItIsTooLong) {
  EXPECT_EQ(LastErrorIn("2026-11-22T01:22:43.123 E " + std::string(5000, 'x') + "\n").size(), 2000U);
}

}  // namespace
}  // namespace trainyard::engine
