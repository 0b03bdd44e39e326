#include "trainer/job/strategy_roles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainer/job/check_role.h"
#include "trainer/job/job_config.h"

namespace trainyard::engine {
namespace {

using Kind = StrategyConfig::Kind;

bool IsJob(std::string_view strategy, int ps, int workers, int chiefs) {
  const std::string text = fmt::format(
      "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{name: digits}}\nspec:\n  ps: {{replicas: {}}}\n"
      "  worker: {{replicas: {}}}\n  chief: {{replicas: {}}}\n  training:\n    model: {{preset: linear}}\n"
      "    data: {{format: synthetic, train: {{examples: 8}}}}\n    steps: 1\n    optimizer: {{name: sgd, learningRate: 0.1}}\n"
      "    strategy: {}\n",
      ps, workers, chiefs, strategy);
  return ParseJob(text, "job.yaml").ok();
}

// A job file and the flags of a replica that is started by hand say the same.
TEST(StrategyRoles, AJobFileAndAReplicasFlagsAreHeldAgainstTheSameRoles) {
  for (const auto& [kind, text] :
       {std::pair(Kind::kLocal, "{local: {}}"), std::pair(Kind::kParameterServer, "{parameterServer: {mode: sync}}"),
        std::pair(Kind::kAllReduce, "{allReduce: {}}")}) {
    TrainingConfig config;
    config.strategy.kind = kind;
    for (const int ps : {0, 1}) {
      for (const int workers : {1, 2}) {
        ReplicaIdentity worker;
        ReplicaIdentity server{.role = Role::kPs};
        worker.worker_hosts.assign(static_cast<size_t>(workers), "w:1");
        worker.ps_hosts.assign(static_cast<size_t>(ps), "s:1");
        const bool fits = CheckRole(config, worker).ok() && (ps == 0 || CheckRole(config, server).ok());
        EXPECT_EQ(IsJob(text, ps, workers, 0), fits) << text << ", " << ps << " servers, " << workers << " workers";
      }
    }
  }
}

TEST(StrategyRoles, WorkerZeroIsTheChiefOfAnAllReduceAndOthersMayHaveOneOfTheirOwn) {
  EXPECT_TRUE(IsJob("{local: {}}", 0, 0, 1));
  EXPECT_TRUE(IsJob("{parameterServer: {mode: sync}}", 1, 1, 1));
  EXPECT_FALSE(IsJob("{allReduce: {}}", 0, 1, 1));
}

}  // namespace
}  // namespace trainyard::engine
