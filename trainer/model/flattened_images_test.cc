#include "trainer/model/flattened_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

FlattenedImages ImagesOf(const std::string& input, const std::string& layers) {
  FieldErrors errors;
  const nlohmann::json model =
      nlohmann::json::parse(R"({"input": {"shape": )" + input + R"(}, "loss": "meanSquaredError", "layers": )" + layers + "}");
  const ModelSpec spec = ParseModelSpec(model, "model", errors);
  EXPECT_TRUE(errors.empty()) << errors.ToStatus("test");
  return FlattenedImagesOf(*BuildInferenceGraph(spec, 1));
}

TEST(FlattenedImagesTest, LastUntilALayerMixesThem) {
  const FlattenedImages images = ImagesOf("[2, 3, 4]", R"(["flatten", {"batchNormalization": {}}, {"activation": {"function": "tanh"}},
      {"reshape": {"targetShape": [-1]}}, {"dense": {"units": 5}}, {"activation": {"function": "relu"}}])");
  EXPECT_EQ(images.size(), 4);
  for (const auto& [value, image] : images) EXPECT_THAT(image, ElementsAre(6, 4));
}

TEST(FlattenedImagesTest, OneChannelOrOnePixelHasOneOrder) {
  EXPECT_THAT(ImagesOf("[2, 3, 1]", R"(["flatten", {"dense": {"units": 5}}])"), IsEmpty());
  EXPECT_THAT(ImagesOf("[2, 3, 4]", R"(["globalAveragePool2d", {"dense": {"units": 5}}])"), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
