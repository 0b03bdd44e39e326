// Small networks that together use every op, over the shapes at which kernels change their ways.
#pragma once

#include <array>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/reference/trial.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine::cuda {

struct NamedTrial {
  std::string name;
  Trial trial;
};

// How many nodes an executor has run one by one.
class NodeCounter final : public NodeObserver {
 public:
  void BeforeNode(NodeId) override { ++nodes; }
  void AfterNode(NodeId) override {}
  int nodes = 0;
};

// Scores of the last axis, their loss, and the labels that have the highest.
inline void ScoreLoss(Trial& trial, Value x, int32_t classes) {
  GraphBuilder& b = trial.builder();
  const Shape shape = b.spec(x).shape;
  Value scores = *b.Dense("head", x, trial.Parameter("head/kernel", {shape[-1], classes}));
  scores = *b.Bias("head/bias_add", scores, trial.Parameter("head/bias", {classes}));
  const Value labels = trial.Labels("labels", Shape(shape.extents().first(shape.rank() - 1)), classes);
  trial.Loss(*b.SoftmaxCrossEntropy("loss", scores, labels));
  TY_CHECK(b.Output("correct", *b.CorrectCount("correct", scores, labels)).ok());
  TY_CHECK(b.Output("logits", scores).ok());
}

// Convolution, bias, pool, activation; windows, strides and paddings drawn from a seed. Every
// fourth is of one pixel.
inline std::vector<NamedTrial> ConvolutionTrials() {
  std::vector<NamedTrial> trials;
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  for (int round = 0; round < 24; ++round) {
    const int kernel = round % 4 == 0 ? 1 : pick(1, 5);
    const int stride = round % 8 == 0 ? 1 : pick(1, 3);
    const Shape images = {pick(1, 9), pick(kernel, kernel + 7), pick(kernel, kernel + 9), pick(1, 6)};
    const int filters = pick(1, 18);
    const Padding padding = pick(0, 1) == 0 ? Padding::kValid : Padding::kSame;
    Trial trial(round + 1);
    GraphBuilder& b = trial.builder();
    Value y = *b.Activate("first", trial.Input("x", images), Activation::kTanh);  // dx is wanted too
    y = *b.Bias("shifted", y, trial.Parameter("shift", {images[3]}));
    y = *b.Conv2d("conv", y, trial.Parameter("conv/kernel", {kernel, kernel, images[3], filters}), {stride, stride}, padding);
    y = *b.Bias("biased", y, trial.Parameter("conv/bias", {filters}));
    const Window pool{{2, 2 + round % 2}, {1 + round % 2, 2}, Padding::kSame};
    if (round % 3 == 0) y = *b.MaxPool("pool", y, pool);
    y = *b.Activate("active", y, static_cast<Activation>(round % kActivations));
    TY_CHECK(b.Output("features", y).ok());
    trial.MeanSquaredLoss(y);
    trials.push_back({"Convolution" + std::to_string(round), std::move(trial)});
  }
  return trials;
}

inline Value AddNorm(Trial& trial, const std::string& name, Value x, bool relu, float epsilon) {
  GraphBuilder& b = trial.builder();
  const int64_t width = b.spec(x).shape[-1];
  const BatchNormParameters parameters = {.gamma = trial.Parameter(name + "/gamma", {width}),
                                          .beta = trial.Parameter(name + "/beta", {width}),
                                          .moving_mean = trial.Parameter(name + "/mean", {width}, /*trainable=*/false),
                                          .moving_variance = trial.Parameter(name + "/variance", {width}, /*trainable=*/false)};
  const Value y = *b.BatchNorm(name, x, parameters, 0.9f, epsilon);
  TY_CHECK(b.NextValue(parameters.moving_mean, {y.node, 1}).ok() && b.NextValue(parameters.moving_variance, {y.node, 2}).ok());
  return relu ? *b.Activate(name + "/relu", y, Activation::kRelu) : y;
}

// A residual block with pre-activation and a penalty on its kernels. Moving variances lie in
// (-1, 1): outside training epsilon must be larger.
inline NamedTrial NormalisedBlock(int64_t batch, int64_t height, float epsilon = 1e-3f) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value fed = trial.Input("x", {batch, height, 19, 3});
  // Two read it, and its gradient is wanted: that of the norm takes in the other.
  const Value images = *b.Bias("shifted", fed, trial.Parameter("shift", {3}));
  const Value first = trial.Parameter("first", {3, 3, 3, 40});
  const Value second = trial.Parameter("second", {1, 1, 40, 3});
  Value y = AddNorm(trial, "norm1", images, /*relu=*/true, epsilon);
  y = AddNorm(trial, "norm2", *b.Conv2d("conv1", y, first, {1, 1}, Padding::kSame), /*relu=*/true, epsilon);
  y = AddNorm(trial, "norm3", *b.Conv2d("conv2", y, second), /*relu=*/false, epsilon);
  const Value sum = *b.Add("sum", std::array{images, y});
  const Value error = *b.MeanSquaredError("error", sum, trial.Input("target", b.spec(sum).shape));
  trial.Loss(*b.L2Penalty("loss", error, std::array{first, second}, 0.01f));
  return {"NormalisedBlock" + std::to_string(batch) + "x" + std::to_string(height), std::move(trial)};
}

// Of convolutions in a row, between which all values may lie as bfloat16: kernels of one and of
// several pixels, strides, biases, a sum of two branches.
inline NamedTrial ConvolutionsInARow(int64_t channels) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const auto conv = [&](const std::string& name, Value x, int32_t size, int32_t stride) {
    const Value z =
        *b.Conv2d(name, x, trial.Parameter(name + "/kernel", {size, size, b.spec(x).shape[3], channels}), {stride, stride}, Padding::kSame);
    return *b.Bias(name + "/biased", z, trial.Parameter(name + "/bias", {channels}));
  };
  const Value x = conv("conv1", trial.Input("x", {4, 9, 7, 3}), 3, 1);
  const Value y = conv("conv2", AddNorm(trial, "norm", x, /*relu=*/true, 1e-3f), 3, 2);
  const Value z = *b.Activate("tanh", conv("conv3", x, 1, 2), Activation::kTanh);
  const Value last = conv("conv4", *b.Activate("sigmoid", *b.Add("sum", std::array{y, z}), Activation::kSigmoid), 1, 1);
  trial.MeanSquaredLoss(*b.AvgPool("average", last, {{2, 2}, {2, 2}}));
  return {"ConvolutionsInARow" + std::to_string(channels), std::move(trial)};
}

inline std::vector<NamedTrial> RecurrentTrials() {
  std::vector<NamedTrial> trials;
  int index = 0;
  for (const int64_t batch : {1, 5, 20}) {
    for (const int64_t steps : {1, 4, 9}) {
      for (const Cell cell : {Cell::kSimpleRnn, Cell::kLstm, Cell::kGru}) {
        const int64_t units = std::array{1, 7, 16, 33}[index % 4];
        const RecurrentOp op{.cell = cell,
                             .activation = std::array{Activation::kTanh, Activation::kSigmoid, Activation::kIdentity}[index % 3],
                             .bias = cell == Cell::kGru && index % 4 != 0,
                             .initial = index % 2 == 0,
                             .reverse = index % 7 < 3};
        const bool last = ++index % 3 == 0;
        Trial trial;
        const int64_t width = GateCount(cell) * units;
        std::vector<Value> inputs = {trial.Input("z", {batch, steps, width}), trial.Parameter("recurrent_kernel", {units, width})};
        // Small enough that a simple RNN without activation does not grow from step to step.
        trial.Scale(0.5f / static_cast<float>(units));
        if (op.bias) inputs.push_back(trial.Parameter("bias", {2, width}));
        if (op.initial) inputs.push_back(trial.Input("h", {batch, units}));
        if (op.initial && cell == Cell::kLstm) inputs.push_back(trial.Input("c", {batch, units}));
        inputs[0] = *trial.builder().Bias("shifted", inputs[0], trial.Parameter("shift", {width}));  // dz is wanted too
        Value y = *trial.builder().Recurrent("recurrent", op, inputs);
        if (last) y = {y.node, RecurrentOutputs::kLast};
        ScoreLoss(trial, y, 5);
        trials.push_back({std::string(CellName(cell)) + std::to_string(index), std::move(trial)});
      }
    }
  }
  return trials;
}

inline NamedTrial EmbeddingTrial(int64_t batch, int64_t steps, int64_t width, int64_t units) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  Value y = *b.Embedding("embedding", trial.Labels("ids", {batch, steps}, 11), trial.Parameter("table", {13, width}));
  y = *b.Dropout("dropout", y, 0.3f);
  y = *b.Dense("dense", y, trial.Parameter("dense/kernel", {width, units}));
  y = *b.Bias("bias_add", y, trial.Parameter("dense/bias", {units}));
  y = *b.Activate("tanh", y, Activation::kTanh);
  ScoreLoss(trial, y, 300);
  return {"Embedding" + std::to_string(batch) + "x" + std::to_string(steps), std::move(trial)};
}

inline NamedTrial BothDirections() {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value z = trial.Input("z", {17, 4, 20});
  const Value forward = *b.Recurrent("forward", {}, {z, trial.Parameter("forward/kernel", {5, 20})});
  const Value backward = *b.Recurrent("backward", {.reverse = true}, {z, trial.Parameter("backward/kernel", {5, 20})});
  const Value sum = *b.Add("sum", std::array{forward, backward});
  const Value both = *b.Concat("both", std::array{forward, sum, backward});
  const Value flat = *b.Flatten("flat", *b.Softmax("softmax", both));
  const Value other = *b.Concat("other", std::array{trial.Input("x", {17, 60}), flat, *b.Activate("relu", flat, Activation::kRelu)});
  trial.MeanSquaredLoss(*b.Dense("dense", other, trial.Parameter("kernel", {180, 3})));
  return {"BothDirections", std::move(trial)};
}

inline NamedTrial PooledAverages(const Window& window, int index) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = *b.Bias("shifted", trial.Input("x", {5, 6, 7, 3}), trial.Parameter("shift", {3}));
  const Value sum = *b.Add("sum", std::array{*b.Activate("relu", x, Activation::kRelu), *b.Activate("sigmoid", x, Activation::kSigmoid),
                                             *b.Activate("tanh", x, Activation::kTanh)});
  const Value average = *b.AvgPool("average", sum, window);
  trial.MeanSquaredLoss(*b.MaxPool("highest", average, {{2, 2}, {1, 1}, Padding::kSame}));
  return {"PooledAverages" + std::to_string(index), std::move(trial)};
}

// A pool whose windows cover the image side by side, behind a convolution of few channels.
inline NamedTrial TiledPool(const Shape& images, int64_t filters, const Window& pool) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  Value y = *b.Conv2d("conv", trial.Input("x", images), trial.Parameter("kernel", {3, 3, images[3], filters}), {1, 1}, Padding::kSame);
  y = *b.Activate("active", *b.Bias("biased", y, trial.Parameter("bias", {filters})), Activation::kTanh);
  trial.MeanSquaredLoss(*b.MaxPool("pool", y, pool));
  return {"TiledPool" + std::to_string(images[3]), std::move(trial)};
}

// More terms and more weights than one launch takes. The bias's gradient has forty
// terms too.
inline NamedTrial ManyTerms() {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {7, 3});
  const Value bias = trial.Parameter("biases", {4});
  std::vector<Value> terms;
  std::vector<Value> weights;
  for (int i = 0; i < 40; ++i) {
    weights.push_back(trial.Parameter("weights" + std::to_string(i), {3, 4}));
    const Value y = *b.Dense("dense" + std::to_string(i), x, weights.back());
    terms.push_back(*b.Bias("bias" + std::to_string(i), y, bias));
  }
  const Value error = *b.MeanSquaredError("error", *b.Add("sum", terms), trial.Input("target", {7, 4}));
  trial.Loss(*b.L2Penalty("loss", error, weights, 0.02f));
  return {"ManyTerms", std::move(trial)};
}

inline std::vector<NamedTrial> AllTrials() {
  std::vector<NamedTrial> trials = ConvolutionTrials();
  for (NamedTrial& trial : RecurrentTrials()) trials.push_back(std::move(trial));
  for (const int64_t batch : {1, 5, 20}) {
    for (const int64_t height : {1, 17}) trials.push_back(NormalisedBlock(batch, height));
  }
  trials.push_back(EmbeddingTrial(1, 1, 3, 7));
  trials.push_back(EmbeddingTrial(5, 3, 20, 64));
  trials.push_back(EmbeddingTrial(20, 30, 33, 130));
  trials.push_back(BothDirections());
  int index = 0;
  for (const Window& window : {Window{{2, 2}, {2, 2}}, Window{{3, 3}, {2, 2}, Padding::kSame}, Window{{2, 3}, {1, 1}}, Window{{5, 6}}}) {
    trials.push_back(PooledAverages(window, index++));
  }
  trials.push_back(TiledPool({3, 6, 8, 1}, 5, {{2, 2}, {2, 2}}));
  trials.push_back(TiledPool({2, 6, 8, 3}, 5, {{3, 4}, {3, 4}}));
  trials.push_back(TiledPool({2, 6, 8, 4}, 6, {{2, 2}, {2, 2}}));
  for (const int64_t channels : {5, 6, 8}) trials.push_back(ConvolutionsInARow(channels));
  trials.push_back(ManyTerms());
  return trials;
}

}  // namespace trainyard::engine::cuda
