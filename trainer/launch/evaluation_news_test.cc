#include "trainer/launch/evaluation_news.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/report/progress.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Evaluation At(int64_t step, double loss = 1) { return {.step = step, .epoch = step / 10, .metrics = {{"loss", loss}}}; }

std::vector<Evaluation> Newest(int64_t end) {
  std::vector<Evaluation> evaluations;
  for (int64_t i = Progress::kMostEvaluations; i > 0; --i) evaluations.push_back(At(end - i));
  return evaluations;
}

class EvaluationNewsTest : public ::testing::Test {
 protected:
  std::vector<int64_t> Take(EvaluationNews& news, const std::vector<Evaluation>& newest, bool end = false) {
    std::vector<int64_t> steps;
    for (const Evaluation& evaluation : news.Take(newest, end, [this] {
           ++reads_;
           return log_;
         })) {
      steps.push_back(evaluation.step);
    }
    return steps;
  }

  EvaluationNews::Log log_;
  int reads_ = 0;
};

TEST_F(EvaluationNewsTest, EachIsToldOnce) {
  EvaluationNews news({});
  EXPECT_THAT(Take(news, {At(10)}), ElementsAre(10));
  EXPECT_THAT(Take(news, {At(10), At(20)}), ElementsAre(20));
  EXPECT_THAT(Take(news, {At(10), At(20)}), IsEmpty());
  EXPECT_EQ(reads_, 0);
}

TEST_F(EvaluationNewsTest, TheLogHasThoseThatCameBetweenTwoLooks) {
  EvaluationNews news({});
  EXPECT_THAT(Take(news, {At(1)}), ElementsAre(1));
  for (int64_t step = 1; step < 20; ++step) log_.push_back({.evaluation = At(step), .checkpoint = {}});
  EXPECT_THAT(Take(news, Newest(20)), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19));
  EXPECT_EQ(reads_, 1);
  EXPECT_THAT(Take(news, Newest(21)), ElementsAre(20));
  EXPECT_EQ(reads_, 1) << "nothing is missing";
}

TEST_F(EvaluationNewsTest, TheEndTellsWhatIsLeft) {
  EvaluationNews news({});
  EXPECT_THAT(Take(news, {At(10)}), ElementsAre(10));
  log_ = {{.evaluation = At(10), .checkpoint = {}}, {.evaluation = At(20), .checkpoint = {}}};
  EXPECT_THAT(Take(news, {At(30)}, /*end=*/true), ElementsAre(20, 30));
}

TEST_F(EvaluationNewsTest, ThoseOfAnEarlierRunAreNone) {
  log_ = {{.evaluation = At(10), .checkpoint = {}}, {.evaluation = At(20, 0.5), .checkpoint = {}}};
  EvaluationNews news({log_[0], {.evaluation = At(20, 0.7), .checkpoint = {}}});
  EXPECT_THAT(Take(news, {}, /*end=*/true), ElementsAre(20)) << "the step came again";
}

}  // namespace
}  // namespace trainyard::engine
