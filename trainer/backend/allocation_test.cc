// Counts what a step takes from the heap. Replaces the global operators of this test program, so it is one file for itself.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/base/check.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/gradient.h"

namespace {
std::atomic<int64_t> allocations = 0;

void* Allocate(size_t bytes, size_t alignment) {
  ++allocations;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return Allocate(bytes, static_cast<size_t>(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace trainyard::engine {
namespace {

class NullSink : public GradientSink {
 public:
  void Ready(int key) override { ++keys; }
  int keys = 0;
};

// Every op that a convolutional network has, forward and backward.
void BuildNetwork(Trial& trial) {
  GraphBuilder& b = trial.builder();
  Value h = *b.Conv2d("conv", trial.Input("x", {19, 8, 8, 2}), trial.Parameter("conv/kernel", {3, 3, 2, 4}), {1, 1}, Padding::kSame);
  h = *b.Bias("conv/bias_add", h, trial.Parameter("conv/bias", {4}));
  h = *b.Activate("conv/tanh", h, Activation::kTanh);
  h = *b.MaxPool("pool", h, {{2, 2}, {2, 2}});
  const BatchNormParameters norm = {.gamma = trial.Parameter("norm/gamma", {4}),
                                    .beta = trial.Parameter("norm/beta", {4}),
                                    .moving_mean = trial.Parameter("norm/moving_mean", {4}, /*trainable=*/false),
                                    .moving_variance = trial.Parameter("norm/moving_variance", {4}, /*trainable=*/false)};
  const Value before = h;
  h = *b.BatchNorm("norm", h, norm, 0.9f, 1e-3f);
  TY_CHECK(b.NextValue(norm.moving_mean, {h.node, 1}).ok() && b.NextValue(norm.moving_variance, {h.node, 2}).ok());
  h = *b.Activate("norm/relu", h, Activation::kRelu);
  const Value kernel = trial.Parameter("conv2/kernel", {1, 1, 4, 4});
  h = *b.Add("residual", std::array{before, *b.Conv2d("conv2", h, kernel)});
  h = *b.AvgPool("average", h, {{2, 2}, {1, 1}});
  h = *b.Dropout("dropout", h, 0.5f);
  h = *b.Flatten("flat", h);
  h = *b.Dense("dense", h, trial.Parameter("dense/kernel", {36, 5}));
  const Value loss = *b.SoftmaxCrossEntropy("cross_entropy", h, trial.Labels("labels", {19}, 5));
  trial.Loss(*b.L2Penalty("loss", loss, std::array{kernel}, 0.01f));
}

void ExpectNoAllocations(Backend& backend) {
  Trial trial;
  BuildNetwork(trial);
  Graph graph = FuseEpilogues(trial.builder().graph());
  ASSERT_TRUE(AddGradients(graph, graph.outputs().at("loss")).ok());
  const absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(std::move(graph), backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const ParameterSet params = trial.parameters();
  ParameterSet grads({params.specs().begin(), params.specs().end()});
  const std::vector<Feed> feeds = trial.feeds();
  NullSink sink;

  const int64_t before = allocations;
  bool ok = true;
  double loss = 0.0;
  for (uint64_t step = 0; step < 5; ++step) {
    ok = ok && (*executor)->Run({.step = step}, feeds, params, &grads, &sink).ok();
    loss = *(*executor)->Scalar("loss");
  }
  const int64_t after = allocations;

  EXPECT_EQ(after - before, 0);
  EXPECT_TRUE(ok);
  EXPECT_GT(loss, 0.0);
  EXPECT_EQ(sink.keys, 5 * 8);
  EXPECT_GT(before, 0);  // the counter counts
}

TEST(Executor, StepsThatListTheRowsOfAGradientTakeNothingFromTheHeapAfterTheFirst) {
  Trial trial;
  const Value ids = trial.Labels("ids", {4, 6}, 10, /*rows=*/true);
  trial.MeanSquaredLoss(*trial.builder().Embedding("embedding", ids, trial.Parameter("table", {10, 3})));
  Graph graph = trial.builder().graph();
  ASSERT_TRUE(AddGradients(graph, graph.outputs().at("loss")).ok());
  const absl::StatusOr<std::unique_ptr<Backend>> backend = MakeCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(std::move(graph), **backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const ParameterSet params = trial.parameters();
  ParameterSet grads({params.specs().begin(), params.specs().end()});
  const std::vector<Feed> feeds = trial.feeds();
  bool ok = (*executor)->Run({}, feeds, params, &grads, nullptr).ok();

  const int64_t before = allocations;
  for (uint64_t step = 1; step < 5; ++step) ok = ok && (*executor)->Run({.step = step}, feeds, params, &grads, nullptr).ok();
  const int64_t after = allocations;

  EXPECT_EQ(after - before, 0);
  EXPECT_TRUE(ok);
  EXPECT_FALSE(grads.touched_rows(0).all());
}

TEST(Executor, StepsOnTheReferenceBackendTakeNothingFromTheHeap) {
  ExpectNoAllocations(*MakeReferenceBackend(DType::kF32));
  ExpectNoAllocations(*MakeReferenceBackend(DType::kF64));
}

TEST(Executor, StepsOnTheCpuBackendTakeNothingFromTheHeap) {
  for (int threads : {1, 2}) {
    const absl::StatusOr<std::unique_ptr<Backend>> backend = MakeCpuBackend({.threads = threads});
    ASSERT_TRUE(backend.ok()) << backend.status();
    ExpectNoAllocations(**backend);
  }
}

}  // namespace
}  // namespace trainyard::engine
