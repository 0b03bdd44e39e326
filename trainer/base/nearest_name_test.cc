#include "trainer/base/nearest_name.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

const std::vector<std::string> kKnown = {"learningRate", "momentum", "seed", "sync", "async"};

TEST(NearestName, FindsWhatWasMeantByASlipOfTheFingers) {
  EXPECT_EQ(NearestName("learning_rate", kKnown), "learningRate");
  EXPECT_EQ(NearestName("momentun", kKnown), "momentum");
  EXPECT_EQ(NearestName("sede", kKnown), "seed") << "two neighbours are swapped";
  EXPECT_EQ(NearestName("asnyc", kKnown), "async");
}

TEST(NearestName, FindsNothingThatIsFarAway) {
  EXPECT_EQ(NearestName("optimizer", kKnown), "");
  EXPECT_EQ(NearestName("", kKnown), "");
  EXPECT_EQ(NearestName(std::string(1000, 's'), kKnown), "");
}

}  // namespace
}  // namespace trainyard::engine
