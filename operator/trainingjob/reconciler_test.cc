#include "operator/trainingjob/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "operator/api/json_read.h"
#include "operator/api/validation.h"
#include "operator/base/fake_clock.h"
#include "operator/trainingjob/test_makers.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr char kKey[] = "default/mnist";
constexpr Resource kVolcanoPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};

// One process of the operator: its caches follow the server, and reconciles happen when the test says so.
class Process {
 public:
  Process(FakeApiServer& server, FakeClock& clock) : clock_(clock), server_(server) {
    jobs_.Start();
    pods_.Start();
    services_.Start();
    configs_.Start();
    nodes_.Start();
    Sync();
  }

  // Waits (with a deadline) until the caches hold what the server holds. The jumps of the test's clock can make a watch look dead: its
  // reflector then waits on that clock before it connects again, so time goes on while nothing comes.
  void Sync() {
    const auto began = std::chrono::steady_clock::now();
    auto nudge = began + std::chrono::seconds(1);
    while (!InSync()) {
      const auto now = std::chrono::steady_clock::now();
      ASSERT_LT(now, began + std::chrono::seconds(20)) << "the caches did not follow the server";
      if (now > nudge) {
        clock_.Advance(absl::Seconds(1));
        nudge = now + std::chrono::milliseconds(100);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  absl::StatusOr<ReconcileResult> Reconcile() {
    Sync();
    return reconciler_.Reconcile(kKey);
  }

  // Reconciles, with time passing, until nothing is written any more or the server no longer answers.
  void Settle() {
    for (int quiet = 0, rounds = 0; quiet < 2 && rounds < 50 && !server_.Crashed(); ++rounds) {
      const int before = server_.Writes();
      last_ = Reconcile();
      clock_.Advance(absl::Seconds(6));
      quiet = server_.Writes() == before ? quiet + 1 : 0;
    }
  }

  const absl::StatusOr<ReconcileResult>& last() const { return last_; }
  EventRecorder& events() { return events_; }

 private:
  bool InSync() {
    return Same(kTrainingJobs, jobs_) && Same(kPods, pods_) && Same(kServices, services_) && Same(kConfigMaps, configs_) &&
           Same(kNodes, nodes_);
  }
  template <typename T>
  bool Same(const Resource& resource, Informer<T>& informer) {
    if (!informer.HasSynced()) return server_.Crashed();
    size_t count = 0;
    for (const json& object : server_.All(resource)) {
      const ObjectMeta meta = *MetaFromJson(object);
      if (&resource != &kTrainingJobs && &resource != &kNodes && meta.labels.job_uid.empty()) continue;
      const auto cached = informer.lister().Get(meta.Key());
      if (cached == nullptr || cached->meta.resource_version != meta.resource_version) return server_.Crashed();
      ++count;
    }
    return informer.lister().Size() == count || server_.Crashed();
  }
  static InformerOptions Ours() {
    InformerOptions options;
    options.reflector.label_selector = std::string(kJobUidLabel);
    return options;
  }

  FakeClock& clock_;
  FakeApiServer& server_;
  Throttle throttle_{clock_, {.qps = 0}};
  Client client_{server_, throttle_, clock_, {.max_attempts = 1}};
  prometheus::Registry registry_;
  ControllerMetrics controller_metrics_{registry_};
  JobMetrics metrics_{registry_};
  Informer<TrainingJob> jobs_{client_, clock_, kTrainingJobs, {}, [](const json& object) { return DecodeJob({}, object); }};
  Informer<Pod> pods_{client_, clock_, kPods, Ours(), Pod::FromJson};
  Informer<Service> services_{client_, clock_, kServices, Ours(), Service::FromJson};
  Informer<ConfigMap> configs_{client_, clock_, kConfigMaps, Ours(), ConfigMap::FromJson};
  Informer<Node> nodes_{client_, clock_, kNodes, {}, Node::FromJson};
  EventRecorder events_{client_, clock_, controller_metrics_, {}};  // sends when a test starts it
  FanOut fan_out_{0};                                               // one call after the other: the same order in every run
  ProgressPoller progress_{clock_, nullptr, {.threads = 0}, nullptr};
  TrainingJobReconciler reconciler_{client_, clock_, {jobs_, pods_, services_, configs_, &nodes_}, events_, fan_out_, progress_, metrics_};
  absl::StatusOr<ReconcileResult> last_ = ReconcileResult{};
};

class ReconcilerTest : public testing::Test {
 protected:
  ReconcilerTest() { spdlog::set_level(spdlog::level::err); }  // broken connections are meant here

  void Apply(const MakeJob& job) { server_.Put(kTrainingJobs, job.Object()); }
  void Start() { process_ = std::make_unique<Process>(server_, clock_); }
  json Job() { return *server_.Find(kTrainingJobs, "default", "mnist"); }
  json Status() { return Job().value("status", json::object()); }
  std::vector<std::string> Names(const Resource& resource) {
    std::vector<std::string> names;
    for (const json& object : server_.All(resource, "default")) names.push_back(object["metadata"]["name"]);
    return names;
  }
  void Report(const std::string& pod, const std::string& phase, bool ready, json state) {
    const json condition = {{"type", "Ready"}, {"status", ready ? "True" : "False"}};
    const json container = {{"name", "trainer"}, {"state", std::move(state)}};
    const json status = {{"phase", phase}, {"conditions", json::array({condition})}, {"containerStatuses", json::array({container})}};
    server_.Edit(kPods, "default", pod, {{"status", status}});
  }
  void Ready(const std::string& pod) { Report(pod, "Running", true, {{"running", {{"startedAt", FormatTimestamp(clock_.Now())}}}}); }
  void Exited(const std::string& pod, int code) {
    Report(pod, code == 0 ? "Succeeded" : "Failed", false, {{"terminated", {{"exitCode", code}, {"reason", "Error"}}}});
  }
  void AllReady() {
    for (const std::string& pod : Names(kPods)) {
      const json status = server_.Find(kPods, "default", pod)->value("status", json::object());
      if (status.value("phase", "Pending") == "Pending") Ready(pod);
    }
  }
  // Pods that the operator deleted and that run end at once, as with a well node.
  void EndTerminating() {
    for (const json& pod : server_.All(kPods, "default")) {
      if (pod["metadata"].contains("deletionTimestamp")) server_.Remove(kPods, "default", pod["metadata"]["name"].get<std::string>());
    }
  }
  void RunsReady() {
    for (int i = 0; i < 3; ++i) {
      process_->Settle();
      AllReady();
    }
    process_->Settle();
  }

  FakeClock clock_{kStart};
  FakeApiServer server_{clock_};
  std::unique_ptr<Process> process_;
};

MakeJob SmallJob() { return MakeJob().Replicas("ps", 1).Replicas("worker", 2).Claim("data").Restart("worker", "ExitCode"); }

TEST_F(ReconcilerTest, AJobOfTwoServersAndFourWorkersCostsAtMostFifteenWritesWithoutEventsAndNoneWhenQuiet) {
  Apply(MakeJob().Replicas("ps", 2).Replicas("worker", 4).Policy("startPolicy", "Any"));
  Start();
  ASSERT_TRUE(process_->Reconcile().ok());
  for (const std::string& pod : Names(kPods)) {
    Ready(pod);
    ASSERT_TRUE(process_->Reconcile().ok());
  }
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_LE(server_.Writes(), 15) << "6 pods, 6 services, a ConfigMap, 2 of status";
  for (const ApiCall& call : server_.Calls()) EXPECT_NE(call.code, 409) << call.verb << " " << call.resource << " " << call.name;
  process_->Settle();
  server_.ForgetCalls();
  process_->Settle();
  for (const ApiCall& call : server_.Calls()) EXPECT_FALSE(call.IsWrite()) << call.verb << " " << call.resource << " " << call.name;
}

TEST_F(ReconcilerTest, NothingIsDoneWhenTheStatusCannotBeWritten) {
  Apply(SmallJob());
  Start();
  server_.Inject({.verb = "update", .resource = "trainingjobs/status", .code = 500});
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_THAT(Names(kPods), IsEmpty());
  EXPECT_THAT(Names(kServices), IsEmpty());
  process_->Settle();
  EXPECT_THAT(Names(kPods), ElementsAre("mnist-ps-0"));
}

TEST_F(ReconcilerTest, OneCreateThatFailsDoesNotHoldUpTheOthersAndIsTriedAgain) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  server_.Inject({.verb = "create", .resource = "pods", .code = 500, .times = 1});
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(Names(kPods).size(), 2U);
  EXPECT_EQ(Names(kServices).size(), 3U);
  EXPECT_TRUE(process_->Reconcile().ok());
  EXPECT_EQ(Names(kPods).size(), 3U);
}

TEST_F(ReconcilerTest, AForeignPodOfAChildsNameIsNeverTouchedButReported) {
  const json foreign = {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", "mnist-worker-1"}, {"namespace", "default"}}}, {"spec", {{"x", 1}}}};
  server_.Put(kPods, foreign);
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  process_->Settle();
  EXPECT_EQ((*server_.Find(kPods, "default", "mnist-worker-1"))["spec"], foreign["spec"]);
  EXPECT_THAT(Names(kPods), UnorderedElementsAre("mnist-ps-0", "mnist-worker-0", "mnist-worker-1"));
  EXPECT_THAT(Status()["message"].get<std::string>(), testing::HasSubstr("Pod mnist-worker-1 exists and is not controlled by this job"));
  server_.Remove(kPods, "default", "mnist-worker-1");
  for (int i = 0; i < 6; ++i) process_->Settle();
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("ownerReferences"));
}

TEST_F(ReconcilerTest, AnOrphanOfOursIsAdopted) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"ownerReferences", nullptr}}}});
  process_->Settle();
  const json pod = *server_.Find(kPods, "default", "mnist-worker-1");
  EXPECT_EQ(pod["metadata"]["ownerReferences"][0]["uid"], Job()["metadata"]["uid"]);
  EXPECT_EQ(pod["status"]["phase"], "Running");
}

TEST_F(ReconcilerTest, AChildWhoseLabelsWereTakenAwayGetsThemBack) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1", {{"metadata", {{"labels", nullptr}}}});
  process_->Settle();
  EXPECT_EQ((*server_.Find(kPods, "default", "mnist-worker-1"))["metadata"]["labels"]["trainyard.dev/index"], "1");
}

TEST_F(ReconcilerTest, ChildrenDeletedByHandAreMadeAgain) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Remove(kServices, "default", "mnist-worker-1");
  server_.Remove(kConfigMaps, "default", "mnist-cluster");
  server_.Remove(kPods, "default", "mnist-worker-1");
  process_->Settle();
  EXPECT_TRUE(server_.Find(kServices, "default", "mnist-worker-1"));
  EXPECT_TRUE(server_.Find(kConfigMaps, "default", "mnist-cluster"));
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1"));
  EXPECT_EQ(Status()["restarts"], 0);
  EXPECT_EQ(Status()["disruptions"], 1);
}

TEST_F(ReconcilerTest, AConfigMapEditedByHandIsPutRight) {
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kConfigMaps, "default", "mnist-cluster", {{"data", {{"ps_hosts", "evil:1"}}}});
  process_->Settle();
  EXPECT_EQ((*server_.Find(kConfigMaps, "default", "mnist-cluster"))["data"]["ps_hosts"], "mnist-ps-0.default.svc:5000");
}

TEST_F(ReconcilerTest, AFinishedJobIsDeletedAfterItsTimeToLive) {
  Apply(SmallJob().Policy("ttlSecondsAfterFinished", 30));
  Start();
  RunsReady();
  Exited("mnist-worker-0", 0);
  process_->Settle();
  ASSERT_TRUE(process_->last().ok());
  clock_.Advance(absl::Seconds(30));
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_FALSE(server_.Find(kTrainingJobs, "default", "mnist"));
}

TEST_F(ReconcilerTest, ADeadlineIsAskedForWithoutAnyOutsideEvent) {
  Apply(SmallJob().Policy("activeDeadlineSeconds", 1000));
  Start();
  RunsReady();
  const auto result = process_->Reconcile();
  ASSERT_TRUE(result.ok());
  ASSERT_TRUE(result->look_again_after);
  EXPECT_LE(*result->look_again_after, absl::Seconds(1000));
  clock_.Advance(*result->look_again_after);
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Failed");
}

TEST_F(ReconcilerTest, ATerminatingPodOnANodeThatIsDownIsForceDeletedAfterTheGrace) {
  server_.Put(kNodes, {{"apiVersion", "v1"},
                       {"kind", "Node"},
                       {"metadata", {{"name", "n1"}}},
                       {"status", {{"conditions", {{{"type", "Ready"}, {"status", "Unknown"}}}}}}});
  Apply(SmallJob());
  Start();
  RunsReady();
  server_.Edit(kPods, "default", "mnist-worker-1",
               {{"metadata", {{"deletionTimestamp", FormatTimestamp(clock_.Now())}, {"deletionGracePeriodSeconds", 30}}},
                {"spec", {{"nodeName", "n1"}}}});
  ASSERT_TRUE(process_->Reconcile().ok());
  EXPECT_TRUE(server_.Find(kPods, "default", "mnist-worker-1"));
  clock_.Advance(absl::Seconds(61));
  process_->Settle();
  AllReady();
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Running");
  EXPECT_FALSE(server_.Find(kPods, "default", "mnist-worker-1")->at("metadata").contains("deletionTimestamp"));
  EXPECT_EQ(Status()["restarts"], 0);
}

TEST_F(ReconcilerTest, AnEarlierJobsPodsAreWaitedForAndThenReplaced) {
  Apply(SmallJob().Policy("startPolicy", "Any"));
  Start();
  process_->Settle();
  server_.Remove(kTrainingJobs, "default", "mnist");
  Apply(SmallJob().Policy("startPolicy", "Any"));
  process_->Settle();
  EXPECT_FALSE(Status().dump().find("NameTaken") != std::string::npos);
  server_.CollectGarbage();
  process_->Settle();
  ASSERT_EQ(Names(kPods).size(), 3U);
  for (const json& pod : server_.All(kPods)) EXPECT_EQ(pod["metadata"]["labels"]["trainyard.dev/job-uid"], Job()["metadata"]["uid"]);
}

// An MPI job scheduled as a gang: it has what no cache holds.
MakeJob GangJob() { return SmallJob().Framework("MPI").Policy("scheduling", {{"gang", "Volcano"}}).Policy("startPolicy", "Any"); }

class GangTest : public ReconcilerTest {
 protected:
  // Of the job's PodGroup; 0 when there is none.
  int MinMember() {
    const std::optional<json> group = server_.Find(kVolcanoPodGroups, "default", "mnist");
    return group ? group->at("spec").value("minMember", 0) : 0;
  }
  void Scale(int workers) { server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"worker", {{"replicas", workers}}}}}}); }
  void Suspend(bool suspend) { server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"runPolicy", {{"suspend", suspend}}}}}}); }
  json PodGroup(const std::string& uid, const std::string& owner_uid) {
    json meta = {{"name", "mnist"}, {"namespace", "default"}, {"uid", uid}};
    if (!owner_uid.empty()) {
      meta["ownerReferences"] = {
          {{"apiVersion", kApiVersion}, {"kind", kKind}, {"name", "mnist"}, {"uid", owner_uid}, {"controller", true}}};
    }
    return {{"apiVersion", "scheduling.volcano.sh/v1beta1"}, {"kind", "PodGroup"}, {"metadata", meta}, {"spec", {{"minMember", 9}}}};
  }
};

TEST_F(GangTest, ThePodGroupFollowsTheScaleAndCostsNothingWhenQuiet) {
  Apply(GangJob());
  Start();
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
  for (const int workers : {4, 1}) {
    Scale(workers);
    RunsReady();
    EXPECT_EQ(MinMember(), 1 + workers);
  }
  server_.ForgetCalls();
  process_->Settle();
  for (const ApiCall& call : server_.Calls()) {
    EXPECT_NE(call.resource, "podgroups") << call.verb;
    EXPECT_NE(call.resource, "secrets") << call.verb;
  }
}

TEST_F(GangTest, AnUpdateOfThePodGroupThatFailsIsTriedAgainAlsoByTheNextOperator) {
  Apply(GangJob());
  Start();
  RunsReady();
  server_.Inject({.verb = "patch", .resource = "podgroups", .code = 500, .times = 2});
  Scale(1);
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(MinMember(), 3);
  EXPECT_FALSE(process_->Reconcile().ok());
  process_.reset();
  Start();
  RunsReady();
  EXPECT_EQ(MinMember(), 2);
}

TEST_F(GangTest, APodGroupAndKeysThatCouldNotBeMadeAtFirstAreMadeThoughNoPodIsMissing) {
  Apply(GangJob());
  Start();
  server_.Inject({.verb = "create", .resource = "podgroups", .code = 500});
  server_.Inject({.verb = "create", .resource = "secrets", .code = 500});
  EXPECT_FALSE(process_->Reconcile().ok());
  EXPECT_EQ(Names(kPods).size(), 3U);
  process_->Settle();
  EXPECT_EQ(MinMember(), 3);
  EXPECT_THAT(Names(kSecrets), ElementsAre("mnist-ssh"));
}

TEST_F(GangTest, AForeignPodGroupIsNeitherChangedNorDeletedAndToldOnce) {
  const json foreign = server_.Put(kVolcanoPodGroups, PodGroup("foreign", ""));
  Apply(GangJob());
  Start();
  process_->events().Start();
  RunsReady();
  Scale(1);
  RunsReady();
  Exited("mnist-worker-0", 0);
  process_->Settle();
  EXPECT_EQ(Status()["phase"], "Succeeded");
  EXPECT_EQ(server_.Find(kVolcanoPodGroups, "default", "mnist"), foreign);
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  int told = 0;
  for (const json& event : server_.All(kEvents)) told += event["reason"] == "NameTaken" ? 1 : 0;
  EXPECT_EQ(told, 1);
}

TEST_F(GangTest, ThePodGroupOfAnEarlierJobIsWaitedForAndThenReplaced) {
  server_.Put(kVolcanoPodGroups, PodGroup("old", "old-job"));
  Apply(GangJob());
  Start();
  process_->Settle();
  EXPECT_EQ(MinMember(), 9);
  server_.CollectGarbage();
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
}

TEST_F(GangTest, AJobSuspendedWhileAnEarlierOnesPodGroupIsStillThereGetsItsOwnOnceItResumes) {
  server_.Put(kVolcanoPodGroups, PodGroup("old", "old-job"));
  Apply(GangJob().Policy("suspend", true));
  Start();
  process_->Settle();
  Suspend(false);
  process_->Settle();
  EXPECT_EQ(MinMember(), 9);
  server_.CollectGarbage();
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
}

TEST_F(GangTest, AtTheEndPodGroupAndKeysAreGoneWhicheverOperatorIsThere) {
  for (const bool restarted : {false, true}) {
    Apply(GangJob());
    Start();
    RunsReady();
    ASSERT_THAT(Names(kSecrets), ElementsAre("mnist-ssh"));
    Exited("mnist-worker-0", 0);
    if (restarted) {
      ASSERT_FALSE(server_.Find(kTrainingJobs, "default", "mnist")->at("status").contains("completionTime"));
      server_.Inject({.verb = "delete", .code = 500, .times = 10});
      EXPECT_FALSE(process_->Reconcile().ok());
      ASSERT_EQ(Status()["phase"], "Succeeded");
      ASSERT_EQ(MinMember(), 3);
      server_.ClearFaults();
      process_.reset();
      Start();
    }
    process_->Settle();
    EXPECT_EQ(MinMember(), 0);
    EXPECT_THAT(Names(kSecrets), IsEmpty());
    process_.reset();
    server_.Remove(kTrainingJobs, "default", "mnist");
    server_.CollectGarbage();
  }
}

TEST_F(GangTest, AnOperatorWithoutTheRightToSeePodGroupsTellsSoOnceAndDoesNotTryForEver) {
  Apply(GangJob());
  Start();
  RunsReady();
  process_.reset();
  Start();
  server_.Inject({.resource = "podgroups", .code = 403, .reason = "Forbidden", .times = 1000});
  EXPECT_TRUE(process_->Reconcile().ok());
  Exited("mnist-worker-0", 0);
  process_->Settle();
  EXPECT_TRUE(process_->last().ok());
  const auto calls = server_.Calls();
  EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [](const ApiCall& call) { return call.resource == "podgroups" && call.code == 403; }),
            1);
}

TEST_F(GangTest, SuspendingFreesTheGangsPlaceAndResumingAsksForItAnew) {
  Apply(GangJob());
  Start();
  RunsReady();
  Suspend(true);
  process_->Settle();
  EndTerminating();
  process_->Settle();
  EXPECT_EQ(MinMember(), 0);
  EXPECT_THAT(Names(kSecrets), ElementsAre("mnist-ssh")) << "keys hold nothing that others wait for";
  Suspend(false);
  RunsReady();
  EXPECT_EQ(MinMember(), 3);
  EXPECT_EQ(Status()["phase"], "Running");
}

TEST_F(ReconcilerTest, EventsTellTheStory) {
  Apply(MakeJob().Replicas("worker", 1));
  Start();
  process_->events().Start();
  RunsReady();
  Exited("mnist-worker-0", 0);
  process_->Settle();
  EXPECT_TRUE(process_->events().Stop(absl::Seconds(5)));
  std::vector<std::string> reasons;
  for (const json& event : server_.All(kEvents)) reasons.push_back(event["reason"]);
  EXPECT_THAT(reasons, UnorderedElementsAre("Created", "EphemeralOutput", "Running", "Succeeded"));
}

// ---- the operator killed before or after each of its writes ----

// What must be the same in the end however the way there went: everything but times, uids and versions.
json Essence(FakeApiServer& server) {
  json essence;
  for (const Resource& resource : {kPods, kServices, kConfigMaps, kSecrets, kVolcanoPodGroups}) {
    for (const json& object : server.All(resource)) {
      json& kept = essence[std::string(resource.plural)][object["metadata"]["name"].get<std::string>()];
      kept = {{"spec", object.value("spec", json())}, {"owner", object["metadata"]["ownerReferences"]}};
      if (resource.plural != kSecrets.plural) kept["data"] = object.value("data", json());  // keys are random
    }
  }
  json status = server.Find(kTrainingJobs, "default", "mnist")->at("status");
  for (const char* time : {"startTime", "completionTime"}) {
    EXPECT_TRUE(status.contains(time));
    status.erase(time);
  }
  for (json& condition : status["conditions"]) condition.erase("lastTransitionTime");
  for (json& record : status["restartRecords"]) {
    for (const char* field : {"podUID", "lastEndTime", "podCounted"}) record.erase(field);
  }
  essence["status"] = status;
  return essence;
}

class CrashTest : public GangTest {
 protected:
  // The user and the kubelet: one step of the story each time everything is quiet. False at its end.
  bool NextStep() {
    EndTerminating();
    AllReady();
    const std::string phase = Status().value("phase", "");
    if (phase == "Succeeded") return !finished_twice_++;
    if (phase != "Running" || !process_->last().ok()) return true;
    if (job_.Object()["spec"].contains("/runPolicy/scheduling"_json_pointer)) {
      EXPECT_EQ(MinMember(), 1 + Job()["spec"]["worker"]["replicas"].get<int>()) << "before step " << step_;
    }
    switch (step_++) {
      case 0:
        Exited("mnist-worker-1", 143);
        break;
      case 1:
        Scale(3);
        break;
      case 2:
        server_.Remove(kPods, "default", "mnist-ps-0");
        break;
      case 3:
        Scale(1);
        break;
      default:
        Exited("mnist-worker-0", 0);
    }
    return true;
  }

  // The whole life of a job. Returns the number of writes of the operator.
  int Live() {
    Apply(job_);
    Start();
    for (int round = 0; round < 60; ++round) {
      process_->Settle();
      if (server_.Crashed()) {
        crashes_ += 1;
        process_.reset();
        server_.Revive();
        Start();
        continue;
      }
      if (!NextStep()) return server_.Writes();
    }
    ADD_FAILURE() << "the job did not come to its end: " << Status().dump();
    return 0;
  }

  MakeJob job_ = SmallJob();
  int step_ = 0;
  int finished_twice_ = 0;
  int crashes_ = 0;
};

class Life : public CrashTest {
 public:
  explicit Life(const MakeJob& job) { job_ = job; }
  void TestBody() override {}
  int Run(std::optional<int> crash_at, FakeApiServer::CrashPoint point) {
    if (crash_at) server_.CrashAtWrite(*crash_at, point);
    const int writes = Live();
    process_.reset();
    essence = Essence(server_);
    crashed = crashes_;
    return writes;
  }
  json essence;
  int crashed = 0;
};

void ExpectTheSameEndWhereverTheOperatorIsKilled(const MakeJob& job) {
  Life reference(job);
  const int writes = reference.Run(std::nullopt, FakeApiServer::CrashPoint::kBefore);
  ASSERT_GT(writes, 20);
  ASSERT_EQ(reference.essence["status"]["restarts"], 1);
  ASSERT_EQ(reference.essence["status"]["disruptions"], 1);
  for (const auto point : {FakeApiServer::CrashPoint::kBefore, FakeApiServer::CrashPoint::kAfter}) {
    for (int n = 0; n < writes; ++n) {
      Life life(job);
      life.Run(n, point);
      EXPECT_EQ(life.crashed, 1) << "write " << n;
      EXPECT_EQ(life.essence, reference.essence) << "killed " << (point == FakeApiServer::CrashPoint::kBefore ? "before" : "after")
                                                 << " write " << n << ": " << json::diff(reference.essence, life.essence).dump(1);
    }
  }
}

TEST(Crash, KilledBeforeOrAfterAnyWriteTheOperatorReachesTheSameFinalObjects) { ExpectTheSameEndWhereverTheOperatorIsKilled(SmallJob()); }

TEST(Crash, SoItDoesForAGangWithKeysWhosePodGroupFollowsTheScale) { ExpectTheSameEndWhereverTheOperatorIsKilled(GangJob()); }

}  // namespace
}  // namespace trainyard::control
