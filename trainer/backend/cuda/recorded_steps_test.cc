// A step that is started from its record gives what it gave when its kernels ran one by one.
#include "trainer/backend/cuda/recorded_steps.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/cuda/device_backend.h"
#include "trainer/backend/cuda/test_host_device.h"
#include "trainer/backend/cuda/test_trials.h"

namespace trainyard::engine::cuda {
namespace {

// The keys of results in the order in which they come.
class Order final : public GradientSink {
 public:
  void Ready(int key) override { keys.push_back(key); }
  std::vector<int> keys;
};

// A network with dropout: its numbers must follow the step, in a recorded step too.
class Steps : public testing::Test {
 protected:
  explicit Steps(const HostDeviceOptions& options = {}) : backend_(*MakeDeviceBackend(std::make_unique<HostDevice>(options, &counts_))) {
    executor_ = *Executor::Create(named_.trial.builder().graph(), *backend_);
  }

  // The gradients of step `step` by this executor, and by one that never ran before.
  void ExpectAsFresh(uint64_t step, bool training = true) {
    const StepContext context{.seed = 3, .step = step, .worker = 1, .training = training};
    const ParameterSet parameters = named_.trial.parameters();
    ParameterSet grads({parameters.specs().begin(), parameters.specs().end()});
    Order order;
    ASSERT_TRUE(executor_->Run(context, named_.trial.feeds(), parameters, &grads, &order).ok());
    const auto fresh_backend = MakeDeviceBackend(std::make_unique<HostDevice>());
    const auto fresh = named_.trial.Run(**fresh_backend, true, context);
    ASSERT_TRUE(fresh.ok());
    EXPECT_EQ(grads.Sha256Hex(), fresh->grads.Sha256Hex()) << "step " << step;
    EXPECT_EQ(*executor_->Scalar("loss"), fresh->outputs.at("loss")[0]);
    digests_.push_back(grads.Sha256Hex());
    orders_.push_back(order.keys);
  }

  NamedTrial named_ = EmbeddingTrial(5, 3, 20, 64);
  HostDeviceCounts counts_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::string> digests_;
  std::vector<std::vector<int>> orders_;
};

TEST_F(Steps, TheSecondStepIsRecordedAndStartedFromThenOn) {
  ExpectAsFresh(0);
  EXPECT_EQ(counts_.recorded, 0);
  const int of_a_step = counts_.started;
  ASSERT_GT(of_a_step, 10);
  ExpectAsFresh(1);
  ExpectAsFresh(2);
  ExpectAsFresh(3);
  EXPECT_EQ(counts_.recorded, 1);
  EXPECT_EQ(counts_.replayed, 3);
  EXPECT_EQ(counts_.started, of_a_step);
  EXPECT_NE(digests_[2], digests_[1]) << "dropout does not follow the step";
  EXPECT_EQ(orders_[3], orders_[0]);
  EXPECT_EQ(orders_[3].size(), named_.trial.parameters().specs().size());
}

TEST_F(Steps, StepsOutsideTrainingHaveARecordOfTheirOwn) {
  for (const uint64_t step : {0, 1, 2}) {
    ExpectAsFresh(step);
    ExpectAsFresh(step, /*training=*/false);
  }
  EXPECT_EQ(counts_.recorded, 2);
  EXPECT_EQ(counts_.replayed, 4);
}

TEST_F(Steps, AnObservedStepRunsNodeByNode) {
  NodeCounter observer;
  for (const uint64_t step : {0, 1, 2}) ExpectAsFresh(step);
  executor_->set_observer(&observer);
  ExpectAsFresh(3);
  EXPECT_GT(observer.nodes, 10);
  executor_->set_observer(nullptr);
  ExpectAsFresh(4);
  EXPECT_EQ(counts_.replayed, 3);
}

class RefusedSteps : public Steps {
 protected:
  RefusedSteps() : Steps({.records = false}) {}
};

TEST_F(RefusedSteps, RunAsTheyCome) {
  for (const uint64_t step : {0, 1, 2, 3}) ExpectAsFresh(step);
  EXPECT_EQ(counts_.replayed, 0);
}

class FailingRecord : public Steps {
 protected:
  FailingRecord() : Steps({.fails_at = 25}) {}
};

TEST_F(FailingRecord, RunsTheStepAsItComesInstead) {
  ExpectAsFresh(0);
  for (uint64_t step = 1; step < 6; ++step) {
    const StepContext context{.seed = 3, .step = step};
    const ParameterSet parameters = named_.trial.parameters();
    ParameterSet grads({parameters.specs().begin(), parameters.specs().end()});
    ASSERT_TRUE(executor_->Run(context, named_.trial.feeds(), parameters, &grads, nullptr).ok()) << step;
  }
  EXPECT_EQ(counts_.replayed, 0);
}

}  // namespace
}  // namespace trainyard::engine::cuda
