#include "trainer/train/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"
#include "trainer/report/recorder.h"
#include "trainer/train/model_runner.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kBatch = 4;

// A tick is a microsecond; counts how often it was read.
class CountingClock final : public Clock {
 public:
  absl::Time Now() override { return absl::UnixEpoch() + absl::Seconds(1) + absl::Microseconds(++reads_); }
  absl::Time Wall() override { return Now(); }
  int64_t reads() const { return reads_; }

 private:
  int64_t reads_ = 0;
};

class ProfilerTest : public ::testing::Test {
 protected:
  ProfilerTest() {
    FieldErrors errors;
    ModelSpec spec = ParseModelSpec({{"preset", "linear"}}, "model", errors);
    runner_ = std::make_unique<ModelRunner>(spec, *backend_);
    executor_ = *runner_->TrainingExecutor(kBatch);
    const std::span<const ParameterSpec> specs = executor_->graph().parameters();
    parameters_ = ParameterSet({specs.begin(), specs.end()});
    gradients_ = ParameterSet({specs.begin(), specs.end()});
  }

  std::unique_ptr<Profiler> MakeProfiler() {
    return std::make_unique<Profiler>(
        ProfilerOptions{.role = "worker", .index = 1, .rank = 1, .steps = {.begin = 2, .end = 4}, .output = Folder()}, clock_);
  }
  static std::string Folder() { return ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name(); }

  // As the step loop does it.
  void RunSteps(Profiler& profiler, int64_t steps) {
    std::vector<float> x(kBatch * 10, 0.5F);
    std::vector<float> y(kBatch, 1.0F);
    const Feed feeds[] = {{kInputName, {DType::kF32, Shape({kBatch, 10}), x.data()}},
                          {kTargetFeed, {DType::kF32, Shape({kBatch, 1}), y.data()}}};
    for (int64_t step = 0; step < steps; ++step) {
      const bool profiled = profiler.Wants(step);
      if (profiled) profiler.BeginStep(step, std::vector<Executor*>{executor_, nullptr});
      const absl::Status ran = executor_->Run({.training = true}, feeds, parameters_, &gradients_, nullptr);
      ASSERT_TRUE(ran.ok()) << ran;
      if (!profiled) continue;
      const absl::Time start = absl::UnixEpoch() + absl::Seconds(step);
      profiler.EndStep({.step = step,
                        .start = start,
                        .input_done = start + absl::Milliseconds(1),
                        .compute_done = start + absl::Milliseconds(5),
                        .end = start + absl::Milliseconds(6)});
    }
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  CountingClock clock_;
  std::unique_ptr<ModelRunner> runner_;
  Executor* executor_ = nullptr;
  ParameterSet parameters_;
  ParameterSet gradients_;
};

TEST_F(ProfilerTest, NoClockIsReadBeforeOrAfterTheProfiledSteps) {
  const std::unique_ptr<Profiler> profiler = MakeProfiler();
  RunSteps(*profiler, 2);
  EXPECT_EQ(clock_.reads(), 0);
  RunSteps(*profiler, 4);
  const int64_t reads = clock_.reads();
  EXPECT_GT(reads, 0);
  const auto again = std::make_unique<Profiler>(ProfilerOptions{.steps = {}}, clock_);
  RunSteps(*again, 6);
  EXPECT_EQ(clock_.reads(), reads);
}

TEST_F(ProfilerTest, EveryNodeThatRunsIsWrittenDownWithItsStep) {
  const std::unique_ptr<Profiler> profiler = MakeProfiler();
  RunSteps(*profiler, 6);
  ASSERT_TRUE(profiler->HasNews());
  ASSERT_TRUE(profiler->Write().ok());
  EXPECT_FALSE(profiler->HasNews());
  const auto profiles = ReadReplicaProfiles(Folder());
  ASSERT_TRUE(profiles.ok()) << profiles.status();
  ASSERT_EQ(profiles->size(), 1);
  const ReplicaProfile& profile = profiles->front();
  EXPECT_EQ(profile.name(), "worker-1");
  EXPECT_EQ(profile.dropped, 0);
  std::map<SpanKind, int> counts;
  int64_t flops = 0;
  for (const Span& span : profile.spans) {
    EXPECT_TRUE(span.step == 2 || span.step == 3);
    ++counts[span.kind];
    if (span.kind != SpanKind::kNode) continue;
    EXPECT_EQ(span.end - span.start, 1000);  // one tick of the clock
    EXPECT_GT(profile.operators[span.id].bytes, 0);
    flops += profile.operators[span.id].flops;
  }
  EXPECT_EQ(counts[SpanKind::kStep], 2);
  EXPECT_EQ(counts[SpanKind::kInput], 2);
  EXPECT_EQ(counts[SpanKind::kCompute], 2);
  EXPECT_EQ(counts[SpanKind::kUpdate], 2);
  EXPECT_GE(counts[SpanKind::kNode], 6);
  EXPECT_GE(flops, 2 * 2 * kBatch * 10 * 2);  // forward and the weights' gradient of a product of 4 x 10 x 1, twice
  const std::map<std::string, int64_t> means = profiler->MeanNodeNanos();
  EXPECT_EQ(means.size(), counts[SpanKind::kNode] / 2);
  for (const auto& [name, nanos] : means) EXPECT_EQ(nanos, 1000) << name;
}

}  // namespace
}  // namespace trainyard::engine
