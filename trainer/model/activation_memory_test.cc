// How much memory a training step takes in bfloat16 beside float32.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

// Counted are all values between the ops of a step, forward and backward, and what kernels work in:
// what `bench` calls megabytes. Parameters, their gradients and the batch are not part of it.
size_t BytesOfStep(const std::string& preset, int64_t batch, Precision precision) {
  FieldErrors errors;
  const ModelSpec spec = ParseModelSpec({{"preset", preset}}, "model", errors);
  EXPECT_TRUE(errors.empty());
  auto graph = BuildTrainingGraph(spec, batch);
  auto backend = MakeCpuBackend({.threads = 1, .precision = precision});
  EXPECT_TRUE(graph.ok() && backend.ok());
  const auto executor = Executor::Create(*std::move(graph), **backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? (*executor)->bytes() : 0;
}

TEST(ActivationMemoryTest, PtbLstmTakesAtMostSixTenthsInBfloat16) {
  const size_t wide = BytesOfStep("ptbLstm", 20, Precision::kFloat32);
  const size_t narrow = BytesOfStep("ptbLstm", 20, Precision::kBfloat16);
  EXPECT_LE(static_cast<double>(narrow), 0.6 * static_cast<double>(wide)) << narrow << " of " << wide << " bytes";
}

}  // namespace
}  // namespace trainyard::engine
