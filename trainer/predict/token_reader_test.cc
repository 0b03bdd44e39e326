#include "trainer/predict/token_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"
#include "trainer/model/one_step.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kWords = 50;

// Reads words of two cells of a kind, one above the other.
ModelSpec TwoCells(const std::string& cell) {
  FieldErrors errors;
  const nlohmann::json layers = nlohmann::json::parse(R"([{"embedding": {"outputDim": 20}}, {"dropout": {"rate": 0.5}},
      {")" + cell + R"(": {"units": 33, "returnSequences": true}}, {"dense": {"units": 17, "activation": "tanh"}},
      {")" + cell + R"(": {"units": 40, "returnSequences": true}}, {"dense": {"units": 50}}])");
  ModelSpec spec = ParseModelSpec(
      {{"input", {{"shape", {6}}, {"vocabulary", kWords}}}, {"layers", layers}, {"loss", "softmaxCrossEntropy"}}, "model", errors);
  EXPECT_TRUE(errors.ToStatus("model").ok()) << errors.ToStatus("model");
  const auto one_step = OneStepOf(std::move(spec));
  EXPECT_TRUE(one_step.ok()) << one_step.status();
  return *one_step;
}

std::vector<std::unique_ptr<Backend>> BackendsThatRead() {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(MakeReferenceBackend());
  for (const KernelTable* table : RunnableKernels()) {
    for (const int threads : {1, 3}) backends.push_back(*MakeCpuBackend({.threads = threads, .isa = table->isa}));
  }
  return backends;
}

TEST(TokenReader, LeavesTheBitsOfReadingOneTokenAfterTheOther) {
  for (const std::string cell : {"lstm", "gru", "simpleRnn"}) {
    const ModelSpec spec = TwoCells(cell);
    ParameterSet parameters(*ParameterSpecsOf(spec));
    InitializeParameters(spec, 7, parameters);
    for (const std::unique_ptr<Backend>& backend : BackendsThatRead()) {
      for (const int64_t rows : {1, 5, 16}) {
        SCOPED_TRACE(testing::Message() << cell << " by " << backend->kernels() << ", " << rows << " rows");
        const auto executor = Executor::Create(*BuildInferenceGraph(spec, rows), *backend, {.inference = &parameters});
        ASSERT_TRUE(executor.ok()) << executor.status();
        ParameterSet one = ZeroState((*executor)->graph());
        ParameterSet many = ZeroState((*executor)->graph());
        TokenReader reader(spec, parameters, *backend);
        int32_t next = 1;
        for (const int64_t length : kReadLengths) {
          std::vector<int32_t> tokens(static_cast<size_t>(rows * length));
          for (int32_t& token : tokens) token = next = (next * 29 + 11) % kWords;
          ASSERT_TRUE(reader.Read(rows, length, tokens, many).ok());
          std::vector<int32_t> step(static_cast<size_t>(rows));
          for (int64_t i = 0; i < length; ++i) {
            for (int64_t row = 0; row < rows; ++row) step[row] = tokens[row * length + i];
            const Feed feed{.name = kInputName, .tensor = {DType::kI32, Shape({rows, 1}), step.data()}};
            ASSERT_TRUE((*executor)->Run({.training = false}, std::span(&feed, 1), parameters, nullptr, nullptr, &one).ok());
          }
          ASSERT_NE(one.values(0)[0], 0.0F);
          for (int key = 0; key < one.size(); ++key) {
            EXPECT_TRUE(std::ranges::equal(one.values(key), many.values(key))) << one.spec(key).name << " after " << length;
          }
        }
      }
    }
  }
}

TEST(TokenReader, TakesTheLongestPieceThatFits) {
  EXPECT_EQ(ReadLengthFor(1), 1);
  EXPECT_EQ(ReadLengthFor(7), 1);
  EXPECT_EQ(ReadLengthFor(8), 8);
  EXPECT_EQ(ReadLengthFor(31), 8);
  EXPECT_EQ(ReadLengthFor(1000), 32);
}

}  // namespace
}  // namespace trainyard::engine
