#include "trainer/predict/predictor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

// Classes of images whose values, of a large batch, no second cache holds.
TrainedModel WideImages() {
  FieldErrors errors;
  const nlohmann::json layers = nlohmann::json::parse(R"([{"conv2d": {"filters": 32, "kernelSize": [3, 3], "padding": "same"}},
      {"conv2d": {"filters": 16, "kernelSize": [1, 1], "activation": "relu"}}, {"flatten": {}}, {"dense": {"units": 5}}])");
  TrainedModel model;
  model.description.training.model =
      ParseModelSpec({{"input", {{"shape", {40, 40, 3}}}}, {"layers", layers}, {"loss", "softmaxCrossEntropy"}}, "model", errors);
  EXPECT_TRUE(errors.ToStatus("model").ok()) << errors.ToStatus("model");
  const ModelSpec& spec = model.description.training.model;
  model.parameters = ParameterSet(*ParameterSpecsOf(spec));
  InitializeParameters(spec, 7, model.parameters);
  return model;
}

TEST(Predictor, GivesAnExampleTheSameBitsAloneAndInALargeBatch) {
  constexpr int64_t kExamples = 21;
  const TrainedModel model = WideImages();
  for (const KernelTable* table : RunnableKernels()) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(testing::Message() << table->isa << " on " << threads << " threads");
      const std::unique_ptr<Backend> backend = *MakeCpuBackend({.threads = threads, .isa = table->isa});
      const auto predictor = Predictor::Create(model, *backend);
      ASSERT_TRUE(predictor.ok()) << predictor.status();
      const int64_t each = (*predictor)->example_shape().elements();
      std::vector<uint8_t> images(static_cast<size_t>(kExamples * each));
      for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<uint8_t>(i * 2654435761U >> 13);
      const auto bytes = std::as_bytes(std::span(images));
      const auto all = (*predictor)->Predict(DType::kU8, bytes, kExamples);
      ASSERT_TRUE(all.ok()) << all.status();
      const std::vector<float> together(all->begin(), all->end());
      ASSERT_EQ(together.size(), static_cast<size_t>(kExamples * 5));
      for (int64_t i = 0; i < kExamples; ++i) {
        const auto alone = (*predictor)->Predict(DType::kU8, bytes.subspan(i * each, each), 1);
        ASSERT_TRUE(alone.ok()) << alone.status();
        EXPECT_TRUE(std::ranges::equal(*alone, std::span(together).subspan(i * 5, 5))) << "example " << i;
      }
    }
  }
}

TEST(Predictor, GivesAStandardisedLabelInItsUnit) {
  FieldErrors errors;
  TrainedModel model;
  model.description.training.model = ParseModelSpec({{"preset", "linear"}, {"inputs", 2}}, "model", errors);
  EXPECT_TRUE(errors.ToStatus("model").ok()) << errors.ToStatus("model");
  model.parameters = ParameterSet(*ParameterSpecsOf(model.description.training.model));
  InitializeParameters(model.description.training.model, 7, model.parameters);
  const std::array inputs = {1.0F, 2.0F, -3.0F, 0.5F, 0.0F, 7.0F};
  const auto predict = [&] {
    const std::unique_ptr<Backend> backend = *MakeCpuBackend({.threads = 1});
    const auto predictor = *Predictor::Create(model, *backend);
    const auto found = predictor->Predict(DType::kF32, std::as_bytes(std::span(inputs)), 3);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? std::vector<float>(found->begin(), found->end()) : std::vector<float>(3);
  };
  const std::vector<float> learnt = predict();
  model.description.training.data.label_scale = LabelScale{.mean = 1000, .deviation = 250};
  const std::vector<float> told = predict();
  for (size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(told[i], learnt[i] * 250 + 1000) << i;
}

}  // namespace
}  // namespace trainyard::engine
