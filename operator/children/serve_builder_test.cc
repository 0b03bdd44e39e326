#include "operator/children/serve_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/children/labels.h"
#include "operator/children/pod_builder.h"
#include "operator/children/test_makers.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

MakeJob Served() { return MakeJob().Replicas("worker", 1).Claim("data").Set("/spec/training/steps", 3).Set("/spec/serve/replicas", 2); }

json PodSpecOf(const TrainingJob& job) { return BuildServeDeployment(job)["spec"]["template"]["spec"]; }

TEST(ServeBuilder, APodRunsTheContractsCommandOnTheClaimReadOnly) {
  const json pod = PodSpecOf(Served().Build());
  const json& container = pod["containers"][0];
  EXPECT_EQ(container["command"], json({"trainyard-trainer"}));
  EXPECT_EQ(container["args"], json({"serve", "/var/lib/trainyard/mnist", "--name", "mnist", "--host", "0.0.0.0"}));
  EXPECT_EQ(container["image"], "trainyard/trainer:0.1");
  EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "data");
  EXPECT_EQ(container["volumeMounts"],
            json::parse(R"([{"name": "trainyard-storage", "mountPath": "/var/lib/trainyard", "readOnly": true}])"));
  EXPECT_EQ(PodSpecOf(Served().Set("/spec/serve/when", "best").Build())["containers"][0]["args"].back(), "--best");
}

TEST(ServeBuilder, APodPassesTheRestrictedStandardAndHoldsNoToken) {
  const json pod = PodSpecOf(Served().Build());
  EXPECT_EQ(pod["containers"][0]["securityContext"], TrainerSecurityContext());
  EXPECT_EQ(pod["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["securityContext"]["fsGroup"], kTrainerGroup);
}

TEST(ServeBuilder, ProbesAskTheServerAndAServiceForgetsAPodBeforeItEnds) {
  const json container = PodSpecOf(Served().Build())["containers"][0];
  EXPECT_EQ(container["readinessProbe"]["httpGet"], json({{"path", "/readyz"}, {"port", "http"}}));
  EXPECT_EQ(container["livenessProbe"]["httpGet"], json({{"path", "/healthz"}, {"port", "http"}}));
  EXPECT_EQ(container["lifecycle"]["preStop"]["exec"]["command"], json({"sleep", "5"}));
}

TEST(ServeBuilder, TheServiceSelectsThePodsAndTheJobsOwnServicesDoNot) {
  const TrainingJob job = Served().Set("/spec/network/services", "Headless").Build();
  const json deployment = BuildServeDeployment(job);
  const json labels = deployment["spec"]["template"]["metadata"]["labels"];
  EXPECT_EQ(BuildServeService(job)["spec"]["selector"], labels);
  EXPECT_EQ(deployment["spec"]["selector"]["matchLabels"], labels);
  EXPECT_FALSE(labels.contains(kJobNameLabel)) << "a headless job's service selects by it";
  EXPECT_FALSE(labels.contains(kJobUidLabel)) << "the operator would watch these pods";
  EXPECT_TRUE(deployment["metadata"]["labels"].contains(kJobUidLabel));
}

TEST(ServeBuilder, BothEndWithTheJob) {
  const TrainingJob job = Served().Build();
  for (const json& object : {BuildServeDeployment(job), BuildServeService(job)}) {
    EXPECT_EQ(object["metadata"]["name"], "mnist-serve");
    EXPECT_EQ(object["metadata"]["ownerReferences"][0]["uid"], "job-uid");
  }
}

TEST(ServeBuilder, ResourcesAreThoseOfTheSpecElseASmallRequest) {
  EXPECT_EQ(PodSpecOf(Served().Build())["containers"][0]["resources"], json::parse(R"({"requests": {"cpu": "100m", "memory": "64Mi"}})"));
  const json own = {{"limits", {{"cpu", 2}}}};
  EXPECT_EQ(PodSpecOf(Served().Set("/spec/serve/resources", own).Build())["containers"][0]["resources"], own);
}

TEST(ServeBuilder, ASuspendedJobHasNoServingPodsAndAnEndedOneDoes) {
  const auto replicas = [](const MakeJob& job) { return BuildServeDeployment(job.Build())["spec"]["replicas"]; };
  EXPECT_EQ(replicas(Served()), 2);
  EXPECT_EQ(replicas(Served().Policy("suspend", true)), 0);
  EXPECT_EQ(replicas(Served().Policy("suspend", true).Set("/status/phase", "Succeeded")), 2);
  EXPECT_EQ(replicas(Served().Set("/spec/serve/replicas", 0)), 0);
}

TEST(ServeBuilder, AFolderOfCheckpointsElsewhereIsServed) {
  EXPECT_EQ(ServeFolder(Served().Set("/spec/storage/mountPath", "/data/").Build()), "/data/mnist");
  EXPECT_EQ(ServeFolder(Served().Set("/spec/training/checkpoint/dir", "kept").Build()), "/var/lib/trainyard/mnist/kept");
  EXPECT_EQ(ServeFolder(Served().Set("/spec/training/checkpoint/dir", "/var/lib/trainyard/c").Build()), "/var/lib/trainyard/c");
}

TEST(ServeBuilder, TheUrlIsThatOfTheClusterAndItsDomain) {
  EXPECT_EQ(ServeUrl(Served().Build()), "http://mnist-serve.default.svc:8080/v1/models/mnist");
  EXPECT_EQ(ServeUrl(Served().Set("/spec/network/clusterDomain", "cluster.local").Build()),
            "http://mnist-serve.default.svc.cluster.local:8080/v1/models/mnist");
}

TEST(ServeBuilder, TheHashFollowsTheSpecAndNothingElse) {
  EXPECT_EQ(ServeHash(Served().Build()), ServeHash(Served().Replicas("worker", 5).Build()));
  EXPECT_NE(ServeHash(Served().Build()), ServeHash(Served().Set("/spec/serve/replicas", 3).Build()));
  EXPECT_NE(ServeHash(Served().Build()), ServeHash(Served().Policy("suspend", true).Build()));
}

TEST(ServeBuilder, TheLongestJobNameLeavesRoom) { EXPECT_LE(ServeName(MakeJob().Name(std::string(55, 'x')).Build()).size(), 63U); }

}  // namespace
}  // namespace trainyard::control
