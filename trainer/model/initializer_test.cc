#include "trainer/model/initializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

TEST(InitializerTest, AModelStartsWithItsLayersInitializersAndBiasesAtZero) {
  FieldErrors errors;
  const ModelSpec spec = ParseModelSpec(nlohmann::json::parse(R"({"input": {"shape": [6]}, "loss": "meanSquaredError", "layers": [
      {"name": "a", "dense": {"units": 5, "kernelInitializer": "ones"}}, {"name": "b", "dense": {"units": 4, "biasInitializer": "ones"}}]})"),
                                        "model", errors);
  ASSERT_TRUE(errors.empty()) << errors.ToStatus("test");
  ParameterSet parameters(*ParameterSpecsOf(spec));
  InitializeParameters(spec, 7, parameters);
  EXPECT_THAT(parameters.values(parameters.Find("a/kernel")), ::testing::Each(1.0F));
  EXPECT_THAT(parameters.values(parameters.Find("a/bias")), ::testing::Each(0.0F));
  EXPECT_THAT(parameters.values(parameters.Find("b/bias")), ::testing::Each(1.0F));
  const auto kernel = parameters.values(parameters.Find("b/kernel"));
  std::vector<float> expected(20);
  Initialize({Initializer::kGlorotUniform}, 7, "b/kernel", {5, 4}, expected);
  EXPECT_THAT(kernel, ::testing::ElementsAreArray(expected));
}

}  // namespace
}  // namespace trainyard::engine
