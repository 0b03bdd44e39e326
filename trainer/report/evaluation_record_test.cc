#include "trainer/report/evaluation_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "trainer/picture/png.h"

namespace trainyard::engine {
namespace {

TEST(EvaluationRecord, HasTheMatrixByNameAndTheMistakesAsPictures) {
  ConfusionMatrix matrix(2);
  matrix.Add(0, 0);
  matrix.Add(0, 0);
  matrix.Add(1, 0);
  const Image image{.height = 1, .width = 2, .pixels = {1, 2, 3, 4, 5, 6}};
  const std::vector<Mistake> mistakes = {{.image = image, .label = 1, .predicted = 0, .probability = 0.75}};
  const auto json =
      nlohmann::json::parse(EvaluationRecordJson({.step = 40, .classes = {"cat", "dog"}, .matrix = matrix, .mistakes = mistakes}));
  EXPECT_EQ(json["step"], 40);
  EXPECT_EQ(json["examples"], 3);
  EXPECT_EQ(json["confusion"], nlohmann::json::parse("[[2, 0], [1, 0]]"));
  const auto& sample = json["samples"][0];
  EXPECT_EQ(sample["label"], "dog");
  EXPECT_EQ(sample["predicted"], "cat");
  std::string png;
  ASSERT_TRUE(absl::Base64Unescape(sample["image"].get<std::string>(), &png));
  const absl::StatusOr<Image> read = DecodePng(png);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->pixels, image.pixels);
}

}  // namespace
}  // namespace trainyard::engine
