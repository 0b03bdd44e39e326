#include "trainer/job/check_role.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = StrategyConfig::Kind;

std::string WhyRefused(Kind kind, const ReplicaIdentity& identity) {
  TrainingConfig config;
  config.strategy.kind = kind;
  return std::string(CheckRole(config, identity).message());
}

TEST(CheckRole, ServersBelongToParameterServerJobsAlone) {
  const ReplicaIdentity server{.role = Role::kPs, .ps_hosts = {"a:1"}, .worker_hosts = {"b:1"}};
  EXPECT_THAT(WhyRefused(Kind::kParameterServer, server), IsEmpty());
  EXPECT_THAT(WhyRefused(Kind::kLocal, server), HasSubstr("--job_name: found ps, expected worker, because the job has strategy local"));
  EXPECT_THAT(WhyRefused(Kind::kAllReduce, server), HasSubstr("because the job has strategy allReduce, which has no servers"));
}

TEST(CheckRole, AWorkerOfAParameterServerJobNeedsAServer) {
  const ReplicaIdentity worker{.worker_hosts = {"b:1"}};
  EXPECT_THAT(WhyRefused(Kind::kParameterServer, worker), HasSubstr("--ps_hosts: missing, expected at least one server"));
  EXPECT_THAT(WhyRefused(Kind::kParameterServer, {.role = Role::kEvaluator}), IsEmpty());
}

TEST(CheckRole, AJobOfStrategyLocalHasOneWorker) {
  EXPECT_THAT(WhyRefused(Kind::kLocal, {}), IsEmpty());
  EXPECT_THAT(WhyRefused(Kind::kLocal, {.worker_hosts = {"a:1"}}), IsEmpty());
  EXPECT_THAT(WhyRefused(Kind::kLocal, {.worker_hosts = {"a:1", "b:1"}}), HasSubstr("--worker_hosts: found 2 workers, expected 1"));
  EXPECT_THAT(WhyRefused(Kind::kLocal, {.worker_hosts = {"a:1"}, .chief_host = "c:1"}), HasSubstr("found 2 workers"));
  EXPECT_THAT(WhyRefused(Kind::kAllReduce, {.worker_hosts = {"a:1", "b:1"}}), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
