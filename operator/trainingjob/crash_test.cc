// The operator killed before or after each of its writes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/trainingjob/reconciler_harness.h"
#include "tests/support/sanitized.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// The state that must be the same in the end, however the way there went: everything but times,
// uids and versions.
json Essence(FakeApiServer& server) {
  json essence;
  for (const Resource& resource : {kPods, kServices, kConfigMaps, kSecrets, kVolcanoPodGroups}) {
    for (const json& object : server.All(resource)) {
      json& kept = essence[std::string(resource.plural)][object["metadata"]["name"].get<std::string>()];
      kept = {{"spec", object.value("spec", json())}, {"owner", object["metadata"]["ownerReferences"]}};
      if (resource.plural == kSecrets.plural) continue;  // keys are random
      kept["data"] = object.value("data", json());
      if (kept["data"].is_object()) kept["data"].erase("key");
    }
  }
  json status = server.Find(kTrainingJobs, "default", "mnist")->at("status");
  for (const char* time : {"startTime", "runningTime", "completionTime"}) {
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
  // The user and the kubelet: one step of the story each time everything is quiet. False at its
  // end.
  bool NextStep() {
    EndTerminating();
    AllReady();
    const std::string phase = Status().value("phase", "");
    if (phase == "Succeeded") return !finished_twice_++;
    if (phase == "Suspended") {
      EXPECT_TRUE(Names(kPods).empty()) << "before step " << step_;
      EXPECT_EQ(MinMember(), 0) << "before step " << step_;
      Suspend(false);
      ++resumes_;
    }
    if (phase != "Running" || !process_->last().ok()) return true;
    if (job_.Object()["spec"].contains("/runPolicy/scheduling"_json_pointer)) {
      EXPECT_EQ(MinMember(), 1 + Job()["spec"]["worker"]["replicas"].get<int>()) << "before step " << step_;
    }
    switch (step_++) {
      case 0:
        Exited("mnist-worker-1", 143);
        break;
      case 1:
        pauses_ ? Suspend(true) : Scale(3);
        break;
      case 2:
        server_.Remove(kPods, "default", Has("chief") ? "mnist-chief-0" : "mnist-ps-0");
        break;
      case 3:
        pauses_ ? Suspend(true) : Scale(1);
        break;
      default:
        Exited(Has("chief") ? "mnist-chief-0" : "mnist-worker-0", 0);
    }
    return true;
  }

  bool Has(const char* role) const { return job_.Object()["spec"].contains(role); }

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
  bool pauses_ = false;  // it is suspended and resumed twice, in place of a scale up and down
  int step_ = 0;
  int resumes_ = 0;
  int finished_twice_ = 0;
  int crashes_ = 0;
};

class Life : public CrashTest {
 public:
  Life(const MakeJob& job, bool pauses) {
    job_ = job;
    pauses_ = pauses;
  }
  void TestBody() override {}
  int Run(std::optional<int> crash_at, FakeApiServer::CrashPoint point) {
    if (crash_at) server_.CrashAtWrite(*crash_at, point);
    const int writes = Live();
    process_.reset();
    essence = Essence(server_);
    crashed = crashes_;
    resumed = resumes_;
    return writes;
  }
  json essence;
  int crashed = 0;
  int resumed = 0;
};

// AddressSanitizer takes four times as long, and looks at other things than the end: of eight
// writes one is enough for it.
constexpr int kWritesApart = kAddressSanitized ? 8 : 1;

void ExpectTheSameEndWhereverTheOperatorIsKilled(const MakeJob& job, bool pauses = false) {
  Life reference(job, pauses);
  const int writes = reference.Run(std::nullopt, FakeApiServer::CrashPoint::kBefore);
  ASSERT_GT(writes, 20);
  ASSERT_EQ(reference.essence["status"]["restarts"], 1);
  ASSERT_EQ(reference.essence["status"]["disruptions"], 1);
  ASSERT_EQ(reference.resumed, pauses ? 2 : 0);
  const int apart = pauses ? 2 * kWritesApart : kWritesApart;  // before one write, or after the next
  for (const auto point : {FakeApiServer::CrashPoint::kBefore, FakeApiServer::CrashPoint::kAfter}) {
    const int first = point == FakeApiServer::CrashPoint::kAfter ? apart / 2 : 0;
    for (int n = first; n < writes; n += apart) {
      Life life(job, pauses);
      life.Run(n, point);
      EXPECT_EQ(life.crashed, 1) << "write " << n;
      EXPECT_EQ(life.essence, reference.essence) << "killed " << (point == FakeApiServer::CrashPoint::kBefore ? "before" : "after")
                                                 << " write " << n << ": " << json::diff(reference.essence, life.essence).dump(1);
    }
  }
}

TEST(Crash, KilledBeforeOrAfterAnyWriteTheOperatorReachesTheSameFinalObjects) { ExpectTheSameEndWhereverTheOperatorIsKilled(SmallJob()); }

TEST(Crash, SoItDoesForAGangWithKeysWhosePodGroupFollowsTheScale) { ExpectTheSameEndWhereverTheOperatorIsKilled(GangJob()); }

TEST(Crash, SoItDoesForAGangThatIsSuspendedAndResumed) { ExpectTheSameEndWhereverTheOperatorIsKilled(GangJob(), /*pauses=*/true); }

TEST(Crash, SoItDoesForAJobInAQueueWhoseGroupsAreCounted) {
  ExpectTheSameEndWhereverTheOperatorIsKilled(SmallJob().Set("/metadata/labels", {{"kueue.x-k8s.io/queue-name", "research"}}),
                                              /*pauses=*/true);
}

}  // namespace
}  // namespace trainyard::control
