// The operator around TrainingJobReconciler and a cluster that a test moves by hand: what the tests
// of whole reconciles share.
#pragma once

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "operator/api/validation.h"
#include "operator/base/fake_clock.h"
#include "operator/base/timestamp.h"
#include "operator/controller/workqueue.h"
#include "operator/plan/test_world.h"
#include "operator/trainingjob/reconciler.h"
#include "tests/fake_apiserver/fake_api_server.h"

namespace trainyard::control {

inline constexpr char kKey[] = "default/mnist";
inline constexpr Resource kVolcanoPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
inline constexpr Resource kNativePodGroups{"scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"};

// One process of the operator: its caches follow the server, and reconciles happen when the test
// says so.
class Process {
 public:
  Process(FakeApiServer& server, FakeClock& clock) : clock_(clock), server_(server) {
    reconciler_.Connect(queue_);
    jobs_.Start();
    pods_.Start();
    services_.Start();
    configs_.Start();
    deployments_.Start();
    nodes_.Start();
    Sync();
  }

  // Waits (with a deadline) until the caches hold what the server holds. The jumps of the test's
  // clock can make a watch look dead. Its reflector then waits on that clock before it connects
  // again. So time goes on while nothing comes.
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

  // While so many other jobs wait for their first look.
  absl::StatusOr<ReconcileResult> Reconcile(int others_new = 0) {
    Sync();
    while (queue_.Depth() > 0) queue_.Done(queue_.Get()->key);
    for (int i = 0; i < others_new; ++i) queue_.AddToBacklog("default/other-" + std::to_string(i));
    return reconciler_.Reconcile(kKey);
  }

  // Reconciles, with time passing, until nothing is written any more or the server no longer
  // answers.
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
           Same(kDeployments, deployments_) && Same(kNodes, nodes_);
  }
  template <typename T>
  bool Same(const Resource& resource, Informer<T>& informer) {
    if (!informer.HasSynced()) return server_.Crashed();
    size_t count = 0;
    for (const nlohmann::json& object : server_.All(resource)) {
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
  WorkQueue queue_{clock_};
  Throttle throttle_{clock_, {.qps = 0}};
  Client client_{server_, throttle_, clock_, {.max_attempts = 1}};
  prometheus::Registry registry_;
  ControllerMetrics controller_metrics_{registry_};
  JobMetrics metrics_{registry_};
  Informer<TrainingJob> jobs_{client_, clock_, kTrainingJobs, {}, [](const nlohmann::json& object) { return DecodeJob({}, object); }};
  Informer<Pod> pods_{client_, clock_, kPods, Ours(), Pod::FromJson};
  Informer<Service> services_{client_, clock_, kServices, Ours(), Service::FromJson};
  Informer<ConfigMap> configs_{client_, clock_, kConfigMaps, Ours(), ConfigMap::FromJson};
  Informer<Deployment> deployments_{client_, clock_, kDeployments, Ours(), Deployment::FromJson};
  Informer<Node> nodes_{client_, clock_, kNodes, {}, Node::FromJson};
  EventRecorder events_{client_, clock_, controller_metrics_, {}};  // sends when a test starts it
  FanOut fan_out_{0};                                               // one call after the other: the same order in every run
  ProgressPoller progress_{clock_, nullptr, {.parallel = 0}, nullptr};
  VersionPoller versions_{clock_, nullptr, {.parallel = 0}, nullptr};
  TrainingJobReconciler reconciler_{
      client_, clock_, {jobs_, pods_, services_, configs_, deployments_, &nodes_}, events_, fan_out_, progress_, versions_, metrics_};
  absl::StatusOr<ReconcileResult> last_ = ReconcileResult{};
};

class ReconcilerTest : public testing::Test {
 protected:
  ReconcilerTest() { spdlog::set_level(spdlog::level::err); }  // broken connections are meant here

  void Apply(const MakeJob& job) { server_.Put(kTrainingJobs, job.Object()); }
  void Start() { process_ = std::make_unique<Process>(server_, clock_); }
  nlohmann::json Job() { return *server_.Find(kTrainingJobs, "default", "mnist"); }
  nlohmann::json Status() { return Job().value("status", nlohmann::json::object()); }
  std::vector<std::string> Names(const Resource& resource) {
    std::vector<std::string> names;
    for (const nlohmann::json& object : server_.All(resource, "default")) names.push_back(object["metadata"]["name"]);
    return names;
  }
  void Report(const std::string& pod, const std::string& phase, bool ready, nlohmann::json state) {
    const nlohmann::json condition = {{"type", "Ready"}, {"status", ready ? "True" : "False"}};
    const nlohmann::json container = {{"name", "trainer"}, {"state", std::move(state)}};
    const nlohmann::json status = {
        {"phase", phase}, {"conditions", nlohmann::json::array({condition})}, {"containerStatuses", nlohmann::json::array({container})}};
    server_.Edit(kPods, "default", pod, {{"status", status}});
  }
  void Ready(const std::string& pod) { Report(pod, "Running", true, {{"running", {{"startedAt", FormatTimestamp(clock_.Now())}}}}); }
  void Exited(const std::string& pod, int code) {
    Report(pod, code == 0 ? "Succeeded" : "Failed", false, {{"terminated", {{"exitCode", code}, {"reason", "Error"}}}});
  }
  void AllReady() {
    for (const std::string& pod : Names(kPods)) {
      const nlohmann::json status = server_.Find(kPods, "default", pod)->value("status", nlohmann::json::object());
      if (status.value("phase", "Pending") == "Pending") Ready(pod);
    }
  }
  // Pods that the operator deleted and that run end at once, as with a well node.
  void EndTerminating() {
    for (const nlohmann::json& pod : server_.All(kPods, "default")) {
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

inline MakeJob SmallJob() { return MakeJob().Replicas("ps", 1).Replicas("worker", 2).Claim("data").Restart("worker", "ExitCode"); }

// An MPI job scheduled as a gang: it has what no cache holds.
inline MakeJob GangJob() {
  return MakeJob()
      .Framework("MPI")
      .Replicas("chief", 1)
      .Replicas("worker", 2)
      .Claim("data")
      .Restart("worker", "ExitCode")
      .Policy("scheduling", {{"gang", "Volcano"}})
      .Policy("startPolicy", "Any");
}

class GangTest : public ReconcilerTest {
 protected:
  // Of the job's PodGroup; 0 when there is none.
  int MinMember() {
    const std::optional<nlohmann::json> group = server_.Find(kVolcanoPodGroups, "default", "mnist");
    return group ? group->at("spec").value("minMember", 0) : 0;
  }
  void Scale(int workers) { server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"worker", {{"replicas", workers}}}}}}); }
  void Suspend(bool suspend) { server_.Edit(kTrainingJobs, "default", "mnist", {{"spec", {{"runPolicy", {{"suspend", suspend}}}}}}); }
  nlohmann::json PodGroup(const std::string& uid, const std::string& owner_uid) {
    nlohmann::json meta = {{"name", "mnist"}, {"namespace", "default"}, {"uid", uid}};
    if (!owner_uid.empty()) {
      meta["ownerReferences"] = {
          {{"apiVersion", kApiVersion}, {"kind", kKind}, {"name", "mnist"}, {"uid", owner_uid}, {"controller", true}}};
    }
    return {{"apiVersion", "scheduling.volcano.sh/v1beta1"}, {"kind", "PodGroup"}, {"metadata", meta}, {"spec", {{"minMember", 9}}}};
  }
};

}  // namespace trainyard::control
