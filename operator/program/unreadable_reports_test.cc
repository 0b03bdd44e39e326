#include "operator/program/unreadable_reports.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace trainyard::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UnreadableReportsTest : public testing::Test {
 protected:
  void Add(const std::string& name, const std::string& problem = "nested too deep") {
    reports_.Add(kTrainingJobs, {.ns = "default", .name = name, .uid = "u-" + name, .problem = problem});
  }

  std::vector<std::string> told_;
  UnreadableReports reports_{[this](const ObjectReference& about, const std::string& note) {
    told_.push_back(fmt::format("{} {}/{} {}: {}", about.kind, about.ns, about.name, about.uid, note));
  }};
};

TEST_F(UnreadableReportsTest, WhatWasListedBeforeTheProcessLeadsIsToldWhenItLeadsAndLaterReportsAtOnce) {
  Add("listed", "nested too deep");
  Add("listed", "longer than 3 MiB");
  EXPECT_THAT(told_, IsEmpty()) << "another operator may lead";
  reports_.Lead();
  EXPECT_THAT(told_,
              ElementsAre("TrainingJob default/listed u-listed: the operator cannot read this object and goes on with its older state: "
                          "longer than 3 MiB"))
      << "once, the newest";
  Add("watched");
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_THAT(told_[1], HasSubstr("default/watched"));
}

TEST_F(UnreadableReportsTest, AStandbyHoldsABoundedNumber) {
  for (int i = 0; i < 10000; ++i) Add(fmt::format("job-{:05}", i));
  Add("job-00000", "again");
  reports_.Lead();
  ASSERT_EQ(told_.size(), UnreadableReports::kMost);
  EXPECT_THAT(told_[0], HasSubstr("again"));
}

TEST_F(UnreadableReportsTest, AnObjectWithoutANameIsNobodys) {
  Add("");
  reports_.Lead();
  Add("");
  EXPECT_THAT(told_, IsEmpty());
}

}  // namespace
}  // namespace trainyard::control
