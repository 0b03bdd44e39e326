#include "operator/controller/controller.h"

#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "operator/base/fake_clock.h"
#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

using Answer = std::function<absl::StatusOr<ReconcileResult>()>;

// Answers from a script, then with success.
class ScriptedReconciler : public Reconciler {
 public:
  explicit ScriptedReconciler(std::deque<Answer> script) : script_(std::move(script)) {}

  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key) override {
    Answer answer;
    {
      MutexLock lock(mutex_);
      if (!script_.empty()) {
        answer = script_.front();
        script_.pop_front();
      }
      ++calls_;
      changed_.NotifyAll();
    }
    return answer ? answer() : ReconcileResult{};
  }

  bool AwaitCalls(int count) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mutex_);
    while (calls_ < count) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(50));
    }
    return true;
  }

  int calls() {
    MutexLock lock(mutex_);
    return calls_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<Answer> script_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ControllerTest : public testing::Test {
 protected:
  std::string MetricsText() {
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, registry_.Collect());
    return text.str();
  }

  FakeClock clock_;
  prometheus::Registry registry_;
  ControllerMetrics metrics_{registry_};
  WorkQueue queue_{clock_};
};

TEST_F(ControllerTest, AnErrorIsTriedAgainAfterTheBackoffAndSuccessForgetsIt) {
  ScriptedReconciler reconciler({[] { return absl::UnavailableError("gone"); }, [] { return absl::UnavailableError("gone"); }});
  Controller controller(queue_, reconciler, clock_, metrics_, {.workers = 1});
  controller.Start();
  queue_.Add("default/a");
  for (int call = 1; call <= 2; ++call) {
    ASSERT_TRUE(reconciler.AwaitCalls(call));
    ASSERT_TRUE(clock_.AwaitWaiters(1));
    EXPECT_EQ(queue_.Failures("default/a"), call);
    clock_.Advance(absl::Milliseconds(10));
  }
  ASSERT_TRUE(reconciler.AwaitCalls(3));
  EXPECT_TRUE(controller.Stop(absl::Seconds(10)));
  EXPECT_EQ(queue_.Failures("default/a"), 0);
  EXPECT_NE(MetricsText().find("trainyard_reconciles_total{result=\"error\"} 2"), std::string::npos) << MetricsText();
}

TEST_F(ControllerTest, AnExceptionIsAnErrorLikeAnyOther) {
  ScriptedReconciler reconciler({[]() -> absl::StatusOr<ReconcileResult> { throw std::runtime_error("a library threw"); }});
  Controller controller(queue_, reconciler, clock_, metrics_, {.workers = 1});
  controller.Start();
  queue_.Add("default/a");
  ASSERT_TRUE(reconciler.AwaitCalls(1));
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(reconciler.AwaitCalls(2));
}

TEST_F(ControllerTest, LooksAgainWhenTheReconcilerAskedForIt) {
  ScriptedReconciler reconciler({[] { return ReconcileResult{.requeue_after = absl::Minutes(3)}; }});
  Controller controller(queue_, reconciler, clock_, metrics_, {.workers = 1});
  controller.Start();
  queue_.Add("default/a");
  ASSERT_TRUE(reconciler.AwaitCalls(1));
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Minutes(3) - absl::Milliseconds(1));
  EXPECT_EQ(reconciler.calls(), 1);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(reconciler.AwaitCalls(2));
}

TEST_F(ControllerTest, TheServersRetryAfterIsObeyedWhenItIsLongerThanTheBackoff) {
  ScriptedReconciler reconciler({[] { return StatusFromAnswer("create pods a", 429, "{}", "30"); }});
  Controller controller(queue_, reconciler, clock_, metrics_, {.workers = 1});
  controller.Start();
  queue_.Add("default/a");
  ASSERT_TRUE(reconciler.AwaitCalls(1));
  ASSERT_TRUE(clock_.AwaitWaiters(1));
  clock_.Advance(absl::Seconds(29));
  EXPECT_EQ(reconciler.calls(), 1);
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(reconciler.AwaitCalls(2));
}

TEST_F(ControllerTest, StopStartsNoFurtherKey) {
  ScriptedReconciler reconciler({});
  Controller controller(queue_, reconciler, clock_, metrics_, {.workers = 2});
  EXPECT_TRUE(controller.Stop(absl::Seconds(1)));
  queue_.Add("default/a");
  controller.Start();
  EXPECT_TRUE(controller.Stop(absl::Seconds(1)));
  EXPECT_EQ(reconciler.calls(), 0);
}

}  // namespace
}  // namespace trainyard::control
