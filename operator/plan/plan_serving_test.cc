// What serves a job's checkpoints: when it is there, and what is told of it.
#include "operator/plan/plan_serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/children/serve_builder.h"
#include "operator/plan/conditions.h"
#include "operator/plan/test_world.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

MakeJob TrainedByServers() {
  return OneServerTwoWorkers().Set("/spec/training", {{"steps", 3}, {"strategy", {{"parameterServer", {{"mode", "sync"}}}}}});
}

MakeJob Served(const std::string& when = "final") {
  return TrainedByServers()
      .Set("/spec/training/checkpoint/keepBest/metric", "accuracy")
      .Set("/spec/serve", {{"replicas", 2}, {"when", when}});
}

ChildRef Serve(ChildKind kind) { return {kind, "mnist-serve", "", "", std::nullopt}; }

// A World whose API server and Deployment controller do what plans say about serving.
class ServedWorld : public World {
 public:
  explicit ServedWorld(const MakeJob& job) : World(job) {}

  Plan Do() {
    Plan plan = Look();
    for (const Deletion& deletion : plan.deletions) {
      if (deletion.child.kind == ChildKind::kDeployment) serving().deployment = nullptr;
      if (deletion.child.kind == ChildKind::kService && deletion.child.name == "mnist-serve") serving().service.reset();
    }
    for (const ChildRef& child : plan.serving.creations) {
      if (child.kind == ChildKind::kService) serving().service = {ChildKind::kService, child.name, "service-uid", "4", std::nullopt};
      if (child.kind == ChildKind::kDeployment) Store(1);
    }
    if (plan.serving.update) Store(serving().deployment->meta.generation + 1);
    return plan;
  }
  ServedWorld& DoAll() {
    for (int i = 0; i < 5; ++i) Do();
    return *this;
  }
  // Pods answer with this version.
  ServedWorld& Answers(int ready, std::optional<int64_t> version) {
    Change([&](Deployment& deployment) { deployment.ready_replicas = ready; });
    serving().version = version;
    return *this;
  }
  template <typename Function>
  ServedWorld& Change(const Function& change) {
    Deployment deployment = *serving().deployment;
    change(deployment);
    serving().deployment = std::make_shared<const Deployment>(deployment);
    return *this;
  }
  ServedWorld& Trains() {
    RunsReady();
    return DoAll();
  }
  ServedWorld& Succeeds() {
    Trains().Exits(Role::kWorker, 0, 0);
    return DoAll();
  }
  ObservedServing& serving() { return extra.serving; }
  bool Exists() { return serving().deployment != nullptr && serving().service; }
  std::string Message() const { return status().Find(kServing)->message; }

 private:
  void Store(int64_t generation) {
    Deployment deployment = serving().deployment == nullptr ? Deployment{} : *serving().deployment;
    deployment.meta.name = "mnist-serve";
    deployment.meta.uid = "deployment-uid";
    deployment.meta.generation = generation;
    serving().deployment = std::make_shared<const Deployment>(deployment);
    serving().applied = {.uid = "deployment-uid", .generation = generation, .hash = ServeHash(job()), .age = absl::ZeroDuration()};
  }
};

TEST(PlanServing, FinalIsServedOnceTheJobHasSucceeded) {
  ServedWorld world(Served());
  world.Trains();
  EXPECT_FALSE(world.Exists());
  EXPECT_EQ(ReasonOf(world, kServing), "WaitsForSuccess");
  EXPECT_FALSE(world.status().serving);
  world.Exits(Role::kWorker, 0, 0);
  EXPECT_THAT(world.Do().serving.creations, UnorderedElementsAre(Serve(ChildKind::kService), Serve(ChildKind::kDeployment)));
  EXPECT_EQ(world.status().serving->url, "http://mnist-serve.default.svc:8080/v1/models/mnist");
}

TEST(PlanServing, BestIsThereFromTheFirstPodsOnAndWaitsForItsCheckpoint) {
  ServedWorld world(Served("best"));
  world.Do();
  EXPECT_TRUE(world.status().start_time);
  EXPECT_TRUE(world.Exists());
  world.Trains();
  EXPECT_EQ(ReasonOf(world, kServing), "NotReady");
  EXPECT_THAT(world.Message(), HasSubstr("first best checkpoint; kubectl logs deployment/mnist-serve -n default"));
}

TEST(PlanServing, TheFirstVersionThatAnswersIsToldOnce) {
  ServedWorld world(Served("best"));
  world.Trains().Answers(1, std::nullopt);
  EXPECT_EQ(world.Do().requeue_at, world.now() + absl::Seconds(5));
  EXPECT_FALSE(world.status().IsTrue(kServing)) << "it is asked for its version";
  const Plan first = world.Answers(1, 40).Do();
  ASSERT_THAT(EventReasons(first), ElementsAre("Serving"));
  EXPECT_EQ(first.events[0].note, "version 40 answers at http://mnist-serve.default.svc:8080/v1/models/mnist");
  EXPECT_EQ(first.status_timing, StatusTiming::kAtOnce);
  EXPECT_EQ(world.status().serving->version, 40);
  const Plan newer = world.Answers(2, 80).Do();
  EXPECT_THAT(newer.events, IsEmpty());
  EXPECT_EQ(newer.status_timing, StatusTiming::kSettled);
  EXPECT_EQ(world.status().serving, (Serving{.ready_replicas = 2, .version = 80, .url = ServeUrl(world.job())}));
  world.Answers(0, std::nullopt).Do();
  EXPECT_FALSE(world.status().IsTrue(kServing));
  EXPECT_EQ(world.status().serving->version, 80) << "the one that answered last";
}

TEST(PlanServing, AReadyPodServesAlsoWhereTheOperatorCannotAskIt) {
  ServedWorld world(Served("best"));
  world.Trains().Answers(1, std::nullopt).serving().problem = "GET http://10.0.0.7:8080: no answer within 2s";
  world.Do();
  EXPECT_TRUE(world.status().IsTrue(kServing));
  EXPECT_THAT(world.Message(), HasSubstr("its version is not known: GET http://10.0.0.7:8080"));
  ServedWorld unasked(Served("best"));
  unasked.options.ask_versions = false;
  unasked.Trains().Answers(1, std::nullopt).Do();
  EXPECT_TRUE(unasked.status().IsTrue(kServing));
}

TEST(PlanServing, ItOutlivesThePodsUnderEveryPolicy) {
  for (const char* policy : {"None", "Running", "All"}) {
    ServedWorld world(Served().Policy("cleanPodPolicy", policy));
    world.Succeeds();
    world.Answers(2, 3).Passes(absl::Hours(9));
    EXPECT_THAT(Deleted(world.DoAll().Do(), ChildKind::kDeployment), IsEmpty()) << policy;
    EXPECT_TRUE(world.Exists()) << policy;
    EXPECT_TRUE(world.status().IsTrue(kServing)) << policy;
  }
}

TEST(PlanServing, AFailedJobServesItsBestCheckpointIfItHasOne) {
  ServedWorld early(Served("best"));
  early.Trains().Exits(Role::kWorker, 0, 1);
  early.DoAll();
  EXPECT_FALSE(early.Exists());
  EXPECT_EQ(ReasonOf(early, kServing), "JobFailed");

  ServedWorld late(Served("best"));
  late.extra.progress = Progress{.step = 50, .best_checkpoint_step = 40};
  late.Trains().Exits(Role::kWorker, 0, 1);
  late.DoAll();
  EXPECT_EQ(late.status().phase, JobPhase::kFailed);
  EXPECT_TRUE(late.Exists());

  ServedWorld final_one(Served());
  final_one.Trains().Exits(Role::kWorker, 0, 1);
  final_one.DoAll();
  EXPECT_FALSE(final_one.Exists());
  EXPECT_THAT(final_one.Message(), HasSubstr("it has no final checkpoint"));
}

TEST(PlanServing, ASuspendedJobKeepsTheNameAndNoPodsAndHasThemBackAfterwards) {
  ServedWorld world(Served("best"));
  world.Trains().Answers(2, 40).Do();
  world.Edits(Served("best").Policy("suspend", true));
  EXPECT_TRUE(world.Do().serving.update);
  EXPECT_EQ(BuildServeDeployment(world.job())["spec"]["replicas"], 0);
  world.DoAll();
  EXPECT_TRUE(world.Exists());
  EXPECT_EQ(ReasonOf(world, kServing), "Suspended");
  world.Answers(0, std::nullopt).Edits(Served("best"));
  EXPECT_TRUE(world.Do().serving.update);
  world.Trains();
  EXPECT_TRUE(world.Exists());
  EXPECT_EQ(ReasonOf(world, kServing), "NotReady");
}

TEST(PlanServing, AJobThatIsCreatedSuspendedMakesNothing) {
  ServedWorld world(Served("best").Policy("suspend", true));
  world.DoAll();
  EXPECT_FALSE(world.Exists());
  EXPECT_EQ(ReasonOf(world, kServing), "Suspended");
}

TEST(PlanServing, EditsAreFollowedAlsoAfterTheEnd) {
  ServedWorld world(TrainedByServers());
  world.Succeeds();
  EXPECT_EQ(world.status().Find(kServing), nullptr);
  world.Edits(Served());
  world.DoAll();
  EXPECT_TRUE(world.Exists());
  EXPECT_TRUE(world.Edits(Served().Set("/spec/serve/replicas", 5)).Peek().serving.update);
  world.Edits(Served().Set("/spec/serve/resources", json{{"limits", {{"cpu", "1"}}}}));
  EXPECT_TRUE(world.Do().serving.update);
  EXPECT_FALSE(world.Do().serving.update);
  world.Edits(TrainedByServers());
  EXPECT_THAT(Deleted(world.Do(), ChildKind::kDeployment), ElementsAre("mnist-serve"));
  EXPECT_FALSE(world.Exists());
  EXPECT_EQ(ReasonOf(world, kServing), "Removed");
  EXPECT_FALSE(world.status().serving);
  EXPECT_TRUE(world.Do().Empty());
}

TEST(PlanServing, AnEditThatMakesNoSenseChangesNothing) {
  ServedWorld world(Served("best"));
  world.Trains().Answers(2, 40).Do();
  world.Edits(Served("best").Set("/spec/serve/when", "sometimes"));
  const Plan plan = world.Do();
  EXPECT_THAT(EventReasons(plan), ElementsAre("EditRefused"));
  EXPECT_EQ(plan.serving, ServingActions{});
  EXPECT_TRUE(world.Exists());
  EXPECT_TRUE(world.status().IsTrue(kServing));
}

TEST(PlanServing, WhatSomebodyChangedIsPutBackAtMostOnceInTenSeconds) {
  ServedWorld world(Served());
  world.Succeeds().Change([](Deployment& deployment) { ++deployment.meta.generation; });
  Plan plan = world.Peek();
  EXPECT_FALSE(plan.serving.update);
  EXPECT_EQ(plan.requeue_at, world.now() + absl::Seconds(10));
  world.serving().applied->age = absl::Seconds(10);
  plan = world.Do();
  EXPECT_TRUE(plan.serving.update);
  EXPECT_TRUE(plan.serving.restores);
  EXPECT_FALSE(world.Do().serving.update);
}

TEST(PlanServing, WhatSomebodyDeletedIsMadeAgain) {
  ServedWorld world(Served());
  world.Succeeds().serving().deployment = nullptr;
  EXPECT_THAT(world.Do().serving.creations, ElementsAre(Serve(ChildKind::kDeployment)));
  world.serving().service.reset();
  EXPECT_THAT(world.Do().serving.creations, ElementsAre(Serve(ChildKind::kService)));
}

TEST(PlanServing, ADeploymentThatIsBeingDeletedIsWaitedFor) {
  ServedWorld world(Served());
  world.Succeeds().Change([](Deployment& deployment) { deployment.meta.deletion_time = kStart; });
  EXPECT_EQ(world.Peek().serving, ServingActions{});
}

TEST(PlanServing, AnOperatorThatHasJustStartedWritesItOnce) {
  ServedWorld world(Served());
  world.Succeeds().serving().applied.reset();
  const Plan plan = world.Do();
  EXPECT_TRUE(plan.serving.update);
  EXPECT_FALSE(plan.serving.restores);
  EXPECT_FALSE(world.Do().serving.update);
}

TEST(PlanServing, ANameThatIsAnothersIsToldAndHoldsUpNothing) {
  ServedWorld world(Served("best"));
  world.extra.serving.taken[{ChildKind::kDeployment, "mnist-serve"}] = "not controlled by this job";
  const Plan plan = world.Look();
  EXPECT_THAT(EventReasons(plan), Contains("NameTaken"));
  EXPECT_THAT(plan.serving.creations, ElementsAre(Serve(ChildKind::kService)));
  EXPECT_EQ(plan.requeue_at, world.now() + absl::Seconds(30));
  EXPECT_EQ(world.Message(), "Deployment mnist-serve exists and is not controlled by this job; delete or rename it, or remove spec.serve");
  world.RunsReady();
  EXPECT_TRUE(world.status().IsTrue(kRunning));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  EXPECT_FALSE(world.status().serving) << "its address is another's";
}

TEST(PlanServing, ARefusalIsToldAndHoldsUpNothing) {
  ServedWorld world(Served("best"));
  world.serving().refusal = Refusal{
      .child = Serve(ChildKind::kDeployment), .words = "deployments.apps is forbidden: exceeded quota: q", .wait = absl::Seconds(4)};
  const Plan plan = world.Look();
  EXPECT_EQ(plan.serving, ServingActions{});
  EXPECT_EQ(plan.requeue_at, world.now() + absl::Seconds(4));
  EXPECT_THAT(EventReasons(plan), Contains("CannotCreate"));
  EXPECT_THAT(world.Message(), HasSubstr("kubectl describe quota -n default"));
  world.RunsReady();
  EXPECT_TRUE(world.status().IsTrue(kRunning));
  EXPECT_FALSE(world.status().IsTrue(kStalled));
  world.serving().refusal->wait = absl::ZeroDuration();
  EXPECT_THAT(world.Do().serving.creations, Not(IsEmpty()));
}

TEST(PlanServing, PodsThatCannotBeMadeAreExplainedByTheDeployment) {
  ServedWorld world(Served());
  world.Succeeds().Change([](Deployment& deployment) { deployment.problem = "pods \"x\" is forbidden: exceeded quota: q"; }).Do();
  EXPECT_THAT(world.Message(), HasSubstr("exceeded quota: q"));
}

TEST(PlanServing, PodsOfAnEditThatDoNotGetReadyAreToldWhileTheOldOnesServe) {
  ServedWorld world(Served());
  world.Succeeds().Answers(2, 3).Do();
  EXPECT_EQ(world.Message(), "version 3 answers at http://mnist-serve.default.svc:8080/v1/models/mnist");
  world.Change([](Deployment& deployment) { deployment.unready_replicas = 1; }).Do();
  EXPECT_TRUE(world.status().IsTrue(kServing));
  EXPECT_THAT(world.Message(), HasSubstr("; 1 pod of Deployment mnist-serve is not ready; kubectl get pods -n default -l "
                                         "trainyard.dev/serve=mnist tells more"));
  world.Change([](Deployment& deployment) { deployment.problem = "pods \"x\" is forbidden: exceeded quota: q"; }).Do();
  EXPECT_THAT(world.Message(), HasSubstr("; Deployment mnist-serve: pods \"x\" is forbidden: exceeded quota: q"));
  world.Change([](Deployment& deployment) { deployment.unready_replicas = 0, deployment.problem.clear(); }).Do();
  EXPECT_THAT(world.Message(), Not(HasSubstr("ready")));
}

TEST(PlanServing, NoReplicasAreAWishToo) {
  ServedWorld world(Served().Set("/spec/serve/replicas", 0));
  world.Succeeds();
  EXPECT_TRUE(world.Exists());
  EXPECT_EQ(ReasonOf(world, kServing), "NoReplicas");
}

TEST(PlanServing, AJobThatIsInvalidMakesNothing) {
  ServedWorld world(Served().Set("/spec/storage", nullptr));
  world.DoAll();
  EXPECT_EQ(world.status().phase, JobPhase::kInvalid);
  EXPECT_THAT(world.status().message, HasSubstr("spec.serve: found no spec.storage.claimName"));
  EXPECT_FALSE(world.Exists());
}

TEST(Observe, WhatServesIsSortedByItself) {
  const TrainingJob job = Served().Build();
  Deployment ours;
  ours.meta.name = "mnist-serve";
  ours.meta.controller = {std::string(kKind), "mnist", "job-uid"};
  ours.meta.labels = {"mnist", "job-uid", "", ""};
  const auto see = [&](const Deployment& deployment) {
    Children children;
    children.serving.deployments.push_back(std::make_shared<const Deployment>(deployment));
    children.taken[{ChildKind::kService, "mnist-serve"}] = "not controlled by this job";
    return Observe(job, std::move(children));
  };
  EXPECT_NE(see(ours).serving.deployment, nullptr);
  EXPECT_THAT(see(ours).taken, IsEmpty()) << "the training needs no such name";
  EXPECT_EQ(see(ours).serving.taken.size(), 1U);
  Deployment earlier = ours;
  earlier.meta.controller.uid = earlier.meta.labels.job_uid = "earlier";
  EXPECT_THAT(see(earlier).serving.leftovers, ElementsAre("mnist-serve"));
  EXPECT_THAT(see(earlier).leftovers, IsEmpty());
  Deployment neighbour = ours;  // of a job that is called mnist-serve, and so is its headless service
  neighbour.meta.controller = {std::string(kKind), "mnist-serve", "other"};
  neighbour.meta.labels = {"mnist-serve", "other", "", ""};
  EXPECT_EQ(see(neighbour).serving.taken.at({ChildKind::kDeployment, "mnist-serve"}), "controlled by TrainingJob mnist-serve");
  Deployment orphan = ours;
  orphan.meta.controller = {};
  EXPECT_EQ(see(orphan).serving.adopt.size(), 1U);
}

}  // namespace
}  // namespace trainyard::control
