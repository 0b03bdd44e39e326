// Pods that Kueue's finalizer keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/trainingjob/reconciler_harness.h"

namespace trainyard::control {
namespace {

using ::testing::IsEmpty;

// The finalizer is on every pod, as Kueue's webhook puts it there.
class HeldPodsTest : public ReconcilerTest {
 protected:
  void Run() {
    MakeJob job = SmallJob().Policy("startPolicy", "Any").Set("/metadata/labels", {{"kueue.x-k8s.io/queue-name", "q"}});
    for (const char* role : {"ps", "worker"}) job.Template(role, {{"metadata", {{"finalizers", {"kueue.x-k8s.io/managed", "my/own"}}}}});
    Apply(job);
    Start();
    RunsReady();
  }
  nlohmann::json Finalizers(const std::string& pod) {
    const auto found = server_.Find(kPods, "default", pod);
    return found ? found->at("metadata").value("finalizers", nlohmann::json::array()) : nlohmann::json();
  }
};

TEST_F(HeldPodsTest, APodThatTheOperatorDeletesIsLetGoAndOtherFinalizersStay) {
  Run();
  Exited("mnist-worker-1", 143);
  process_->Settle();
  EXPECT_EQ(Finalizers("mnist-worker-1"), nlohmann::json::array({"my/own"}));
  EXPECT_EQ(Finalizers("mnist-worker-0").size(), 2U) << "it runs";
}

TEST_F(HeldPodsTest, AReplicaThatDiesComesBackInTheQueueOfTheOthersThoughTheLabelWasEdited) {
  Run();
  server_.Edit(kTrainingJobs, "default", "mnist", {{"metadata", {{"labels", {{"kueue.x-k8s.io/queue-name", "other"}}}}}});
  server_.Remove(kPods, "default", "mnist-worker-1");
  process_->Settle();
  const auto pod = server_.Find(kPods, "default", "mnist-worker-1");
  ASSERT_TRUE(pod);
  EXPECT_EQ(pod->at("metadata").at("labels").at("kueue.x-k8s.io/queue-name"), "q");
}

TEST_F(HeldPodsTest, ThePodsOfAJobThatIsGoneAreLetGoAlsoByTheNextOperator) {
  for (const bool restarted : {false, true}) {
    Run();
    if (restarted) process_.reset();
    server_.Remove(kTrainingJobs, "default", "mnist");
    server_.CollectGarbage();
    if (restarted) Start();
    server_.Inject({.verb = "patch", .resource = "pods", .code = 500});
    process_->Settle();
    for (const std::string& pod : Names(kPods)) EXPECT_EQ(Finalizers(pod), nlohmann::json::array({"my/own"})) << pod;
    process_.reset();
    for (const std::string& pod : Names(kPods)) server_.Remove(kPods, "default", pod);
    EXPECT_THAT(Names(kPods), IsEmpty());
  }
}

}  // namespace
}  // namespace trainyard::control
