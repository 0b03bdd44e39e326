// What people are told once, when their job is accepted.
#include "operator/plan/acceptance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/plan/plan.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

auto Event(bool warning, const std::string& reason, const std::string& words) {
  return AllOf(Field(&PlannedEvent::warning, warning), Field(&PlannedEvent::reason, reason), Field(&PlannedEvent::note, HasSubstr(words)));
}

TEST(Acceptance, IsInTheFirstStatusOnlyHoweverOftenThatIsPlanned) {
  World world(OneServerTwoWorkers());
  EXPECT_TRUE(Accepts({}, world.Look().status.value()));
  EXPECT_TRUE(Accepts({}, world.ForgetsStatus().Look().status.value()));
  const TrainingJobStatus accepted = world.status();
  EXPECT_EQ(world.Look().status, std::nullopt);
  EXPECT_FALSE(Accepts(accepted, world.AllReady().Look().status.value()));
}

TEST(Acceptance, SaysWhatIsCreated) {
  EXPECT_THAT(AcceptanceEvents(OneServerTwoWorkers().Build()),
              ElementsAre(Event(false, "Created", "creates 3 pods, 1 service and ConfigMap mnist-cluster")));
  EXPECT_THAT(AcceptanceEvents(OneServerTwoWorkers().ServicePerReplica().Build()),
              ElementsAre(Event(false, "Created", "creates 3 pods, 3 services and ConfigMap mnist-cluster")));
}

TEST(Acceptance, WarnsOfAnEphemeralOutputAndOfATemplateThatWins) {
  const MakeJob job =
      MakeJob()
          .Replicas("worker", 1)
          .Template("worker", {{"spec", {{"containers", {{{"name", "t"}, {"env", {{{"name", "TRAINYARD_ROLE"}, {"value", "x"}}}}}}}}}});
  EXPECT_THAT(AcceptanceEvents(job.Build()), ElementsAre(Event(false, "Created", "creates 1 pod, 1 service"),
                                                         Event(true, "EphemeralOutput", "spec.storage.claimName is not set"),
                                                         Event(true, "TemplateWins", "spec.worker.template sets env TRAINYARD_ROLE")));
}

TEST(Acceptance, WarnsOfAnEvaluatorThatFindsNoCheckpoints) {
  EXPECT_THAT(AcceptanceEvents(MakeJob().Replicas("worker", 1).Replicas("evaluator", 1).Build()),
              ElementsAre(Event(false, "Created", "2 pods"), Event(true, "EphemeralOutput", "PersistentVolumeClaim"),
                          Event(true, "EvaluatorWithoutStorage", "finds no checkpoints")));
}

}  // namespace
}  // namespace trainyard::control
