#include "trainer/base/job_settings.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

std::string DifferenceOf(const JobSettings& ours, const JobSettings& theirs) {
  const auto difference = FirstDifference(ours, theirs);
  return difference ? difference->name + ": " + difference->ours + " / " + difference->theirs : "";
}

TEST(JobSettings, TheFirstDifferenceIsNamed) {
  EXPECT_EQ(DifferenceOf({}, {}), "");
  EXPECT_EQ(DifferenceOf({{"seed", "1"}}, {{"seed", "1"}}), "");
  EXPECT_EQ(DifferenceOf({{"a", "1"}, {"seed", "1"}}, {{"a", "1"}, {"seed", "2"}}), "seed: 1 / 2");
  EXPECT_EQ(DifferenceOf({{"a", "1"}, {"seed", "1"}}, {{"seed", "2"}}), "seed: 1 / 2") << "before what one side lacks";
  EXPECT_EQ(DifferenceOf({{"a", "1"}}, {}), "a: 1 / nothing");
  EXPECT_EQ(DifferenceOf({}, {{"a", "1"}}), "a: nothing / 1");
}

}  // namespace
}  // namespace trainyard::engine
