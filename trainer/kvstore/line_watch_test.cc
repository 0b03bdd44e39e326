#include "trainer/kvstore/line_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

ServerView Empty() { return {.up = true}; }
ServerView Holds(int64_t line, int64_t lowest, int64_t highest) {
  return {.up = true, .ready = true, .line = line, .line_step = 2, .lowest = lowest, .highest = highest};
}
LineVerdict Judge(const std::vector<ServerView>& servers, int64_t refused = 0) { return JudgeLine(servers, refused).verdict; }

TEST(LineWatch, OneLineAtOneRoundIsAdopted) {
  const std::vector<ServerView> servers = {Holds(7, 5, 5), Holds(7, 5, 5), Holds(7, -1, -1)};
  const LineView view = JudgeLine(servers, 0);
  EXPECT_EQ(view.verdict, LineVerdict::kAdopt);
  EXPECT_EQ(view.line, 7);
  EXPECT_EQ(view.step, 5);
  EXPECT_EQ(view.line_step, 2);
}

TEST(LineWatch, TheFirstRoundIsOneLikeTheOthers) {
  const LineView view = JudgeLine(std::vector<ServerView>{Holds(7, 0, 0), Holds(7, -1, -1)}, 0);
  EXPECT_EQ(view.verdict, LineVerdict::kAdopt);
  EXPECT_EQ(view.step, 0);
  EXPECT_EQ(JudgeLine(std::vector<ServerView>{Holds(7, -1, -1)}, 0).step, 2) << "without parts: where the line began";
  EXPECT_EQ(Judge({Holds(7, 0, 0), Holds(7, 1, 1)}), LineVerdict::kTorn);
  EXPECT_EQ(Judge({Holds(7, 0, 1)}), LineVerdict::kTorn);
}

TEST(LineWatch, PartsOfDifferentRoundsAreTornOnOneServerOrOverAll) {
  EXPECT_EQ(Judge({Holds(7, 5, 6)}), LineVerdict::kTorn);
  EXPECT_EQ(Judge({Holds(7, 5, 5), Holds(7, 6, 6)}), LineVerdict::kTorn);
  ServerView told = Holds(7, 5, 5);
  told.torn = true;
  EXPECT_EQ(Judge({Holds(7, 5, 5), told}), LineVerdict::kTorn);
  EXPECT_EQ(Judge({Holds(7, 5, 5)}, /*refused=*/7), LineVerdict::kTorn);
}

TEST(LineWatch, AnEmptyServerBesideAFullOneOrAnotherLineIsMixed) {
  EXPECT_EQ(Judge({Holds(7, 5, 5), Empty()}), LineVerdict::kMixed);
  EXPECT_EQ(Judge({Holds(7, 5, 5), Holds(8, 5, 5)}), LineVerdict::kMixed);
  EXPECT_EQ(Judge({Empty(), Empty()}), LineVerdict::kEmpty);
}

TEST(LineWatch, NothingIsDecidedWhileAServerIsAwayOrAFillIsUnderWay) {
  EXPECT_EQ(Judge({Holds(7, 5, 5), ServerView{}}), LineVerdict::kWait);
  ServerView filling = Empty();
  filling.filled_as = 7;
  EXPECT_EQ(Judge({Holds(7, 5, 5), filling}), LineVerdict::kWait);
  EXPECT_EQ(Judge({Holds(7, 5, 5), filling, Empty()}), LineVerdict::kMixed) << "one was lost while the chief filled";
}

TEST(LineWatch, AServerThatIsAwayKeepsItsLineUntilItTellsOtherwise) {
  const auto lost = [](const std::vector<ServerView>& servers) { return IsLost(servers, 7); };
  EXPECT_FALSE(lost({Holds(7, 5, 6), ServerView{}}));
  EXPECT_TRUE(lost({Holds(7, 5, 5), Empty()}));
  EXPECT_TRUE(lost({Holds(7, 5, 5), Holds(8, 2, 2)}));
}

}  // namespace
}  // namespace trainyard::engine
