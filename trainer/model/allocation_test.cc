// Counts what a step takes from the heap. Replaces the global operators of this test program, so it
// is one file for itself.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/base/check.h"
#include "trainer/model/build_graph.h"
#include "trainer/model/initializer.h"
#include "trainer/model/model_json.h"
#include "trainer/optim/clip.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/optim/make_optimizer.h"

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
  const absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(trial.builder().graph(), backend);
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
  const Value ids = trial.Labels("ids", {4, 6}, 10);
  trial.MeanSquaredLoss(*trial.builder().Embedding("embedding", ids, trial.Parameter("table", {10, 3})));
  const absl::StatusOr<std::unique_ptr<Backend>> backend = MakeCpuBackend({.threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  const absl::StatusOr<std::unique_ptr<Executor>> executor = Executor::Create(trial.builder().graph(), **backend);
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

// Training of a model that reads tokens, as a worker alone does it: forward, backward, clipped
// gradients, the optimizer, carried state.
class TokenTraining {
 public:
  TokenTraining(const std::string& model, int64_t batch, const std::string& optimizer, Backend& backend)
      : config_(DefaultOptimizerConfig(optimizer)), optimizer_(*MakeOptimizer(config_)) {
    FieldErrors errors;
    const ModelSpec spec = ParseModelSpec(nlohmann::json::parse(model), "model", errors);
    TY_CHECK(errors.empty());
    executor_ = *Executor::Create(*BuildTrainingGraph(spec, batch), backend);
    parameters_ = ParameterSet(*ParameterSpecsOf(spec));
    InitializeParameters(spec, 1, parameters_);
    gradients_ = ParameterSet(*ParameterSpecsOf(spec));
    while (slots_.size() < optimizer_->slot_names().size()) slots_.emplace_back(*ParameterSpecsOf(spec));
    const std::span<const ParameterSpec> states = executor_->graph().states();
    state_ = ParameterSet({states.begin(), states.end()});
    const Shape shape({batch, spec.input_shape[0]});
    for (int64_t i = 0; i <= shape.elements(); ++i) tokens_.push_back(static_cast<int32_t>(i * 7 % spec.vocabulary));
    feeds_ = {Feed{.name = kInputName, .tensor = {DType::kI32, shape, tokens_.data()}},
              Feed{.name = kLabelsFeed, .tensor = {DType::kI32, shape, tokens_.data() + 1}}};
  }

  // The loss before the step.
  double Step() {
    TY_CHECK(executor_->Run({.step = static_cast<uint64_t>(step_)}, feeds_, parameters_, &gradients_, nullptr, &state_).ok());
    ClipByGlobalNorm(0.5, gradients_);
    const UpdateContext context{.learning_rate = LearningRateAt(config_, step_), .step = step_};
    for (int key = 0; key < parameters_.size(); ++key) {
      std::array<std::span<float>, kMostSlots> slots;
      for (size_t i = 0; i < slots_.size(); ++i) slots[i] = slots_[i].values(key);
      ApplyGradient(*optimizer_, context, parameters_.values(key), gradients_.gradient(key),
                    static_cast<size_t>(parameters_.spec(key).row_elements()), std::span(slots.data(), slots_.size()));
    }
    ++step_;
    return *executor_->Scalar(kLossOutput);
  }

 private:
  const OptimizerConfig config_;
  const std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Executor> executor_;
  ParameterSet parameters_;
  ParameterSet gradients_;
  std::vector<ParameterSet> slots_;
  ParameterSet state_;
  std::vector<int32_t> tokens_;
  std::array<Feed, 2> feeds_;
  int64_t step_ = 0;
};

void ExpectTrainingWithoutAllocations(const std::string& model, Backend& backend) {
  for (const int64_t batch : {1, 4, 20}) {
    for (const char* optimizer : {"adam", "adagrad"}) {  // of whole tables, and of the rows that a batch has
      SCOPED_TRACE(model + " batch " + std::to_string(batch) + " " + optimizer);
      TokenTraining training(model, batch, optimizer, backend);
      const double first = training.Step();

      const int64_t before = allocations;
      double last = 0;
      for (int step = 0; step < 6; ++step) last = training.Step();
      const int64_t after = allocations;

      EXPECT_EQ(after - before, 0);
      EXPECT_LT(last, first);
    }
  }
}

// Every kind of recurrent layer: read forwards and backwards, all steps and the last alone, with
// state and without.
constexpr const char* kTokenModels[] = {
    R"({"preset": "ptbLstm", "vocabulary": 50, "embedding": 12, "units": 20, "numLayers": 2, "steps": 5, "dropout": 0.1})",
    R"({"input": {"shape": [5], "vocabulary": 50}, "loss": "softmaxCrossEntropy", "layers": [
        {"embedding": {"outputDim": 6}},
        {"gru": {"units": 7, "returnSequences": true, "stateful": true}},
        {"simpleRnn": {"units": 9, "returnSequences": true, "activation": "relu"}},
        {"bidirectional": {"layer": {"lstm": {"units": 4, "returnSequences": true}}}},
        {"bidirectional": {"layer": {"gru": {"units": 5, "returnSequences": true}}, "mergeMode": "sum"}},
        {"simpleRnn": {"units": 8, "returnSequences": true, "goBackwards": true}},
        {"bidirectional": {"layer": {"simpleRnn": {"units": 5}}}},
        {"dense": {"units": 250}}, {"reshape": {"targetShape": [5, 50]}}]})"};

TEST(Training, StepsOfRecurrentModelsTakeNothingFromTheHeapAfterTheFirst) {
  for (const char* model : kTokenModels) {
    ExpectTrainingWithoutAllocations(model, *MakeReferenceBackend(DType::kF32));
    for (const int threads : {1, 2}) {
      const absl::StatusOr<std::unique_ptr<Backend>> backend = MakeCpuBackend({.threads = threads});
      ASSERT_TRUE(backend.ok()) << backend.status();
      ExpectTrainingWithoutAllocations(model, **backend);
    }
  }
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
