#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/model/model_json.h"
#include "trainer/predict/evaluate_model.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

// Of one example of each class, all of them right.
std::string TextOf(const std::vector<std::string>& classes) {
  FieldErrors errors;
  TrainedModel model{.checkpoint = "c", .description = {}, .parameters = {}};
  model.description.training.model = ParseModelSpec({{"input", {{"shape", {1}}}},
                                                     {"layers", nlohmann::json::array({{{"dense", {{"units", classes.size()}}}}})},
                                                     {"loss", "softmaxCrossEntropy"}},
                                                    "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("model");
  model.description.classes = classes;
  ModelEvaluation evaluation{.score = {.examples = static_cast<int64_t>(classes.size())},
                             .matrix = ConfusionMatrix(static_cast<int>(classes.size())),
                             .data = "d"};
  for (int label = 0; label < static_cast<int>(classes.size()); ++label) evaluation.matrix->Add(label, label);
  return EvaluationText(model, evaluation);
}

TEST(EvaluationText, HeadsOfColumnsAreCut) {
  EXPECT_THAT(TextOf({"apple", "pear"}), HasSubstr("class  predicted\n"
                                                   "       appl  pear\n"
                                                   "apple     1     0\n"));
}

TEST(EvaluationText, HeadsAreAsWideAsTheyNeedToDiffer) {
  EXPECT_THAT(TextOf({"class_a", "class_b"}), HasSubstr("class    predicted\n"
                                                        "         class_a  class_b\n"
                                                        "class_a        1        0\n"));
}

TEST(EvaluationText, HeadsThatOnlyDifferFarBehindAreNumbers) {
  EXPECT_THAT(TextOf({"a_long_class_1", "a_long_class_2"}), HasSubstr("class              predicted\n"
                                                                      "                      0     1\n"
                                                                      " 0 a_long_class_1     1     0\n"
                                                                      " 1 a_long_class_2     0     1\n"));
}

TEST(EvaluationText, ASmallLossKeepsItsDigits) {
  FieldErrors errors;
  TrainedModel model{.checkpoint = "c", .description = {}, .parameters = {}};
  model.description.training.model = ParseModelSpec({{"preset", "linear"}}, "model", errors);
  EXPECT_THAT(EvaluationText(model, {.score = {.loss = 3.4056e-05, .examples = 10}, .matrix = {}, .data = "d"}),
              HasSubstr("\nloss        3.406e-05\n"));
}

TEST(EvaluationText, OfNumbersHasTheirErrors) {
  FieldErrors errors;
  TrainedModel model{.checkpoint = "c", .description = {}, .parameters = {}};
  model.description.training.model = ParseModelSpec({{"preset", "linear"}}, "model", errors);
  ModelEvaluation evaluation{.score = {.examples = 2}, .matrix = {}, .numbers = NumberScore{.mean_absolute = 11299.285}, .data = "d"};
  evaluation.numbers->root_mean_square = 14159.7;
  EXPECT_THAT(EvaluationText(model, evaluation), HasSubstr("\nmae         11299.3\nrmse        14159.7\nr2          -\n"));
  EXPECT_EQ(nlohmann::json::parse(EvaluationJson(model, evaluation))["r2"], nullptr);
  evaluation.numbers->r2 = 0.75;
  const auto json = nlohmann::json::parse(EvaluationJson(model, evaluation));
  EXPECT_EQ(json["meanAbsoluteError"], 11299.285);
  EXPECT_EQ(json["rootMeanSquaredError"], 14159.7);
  EXPECT_EQ(json["r2"], 0.75);
}

}  // namespace
}  // namespace trainyard::engine
