// Products of bfloat16 operands agree with the reference backend that rounds the same operands, on
// each instruction set that this machine runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "tests/support/sanitized.h"
#include "trainer/backend/cpu/cpu_backend.h"
#include "trainer/backend/cpu/join_add.h"
#include "trainer/backend/cpu/select_bf16.h"
#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/builder.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/recurrent.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

using Outputs = std::map<std::string, std::vector<double>>;

// The sets of this processor family, those that the machine lacks too, and what runs everywhere.
std::vector<std::string> KnownSets() {
  std::vector<std::string> names;
  for (const Bf16Instructions& known : KnownBf16Instructions()) names.emplace_back(known.isa);
  for (const KernelTable* table : RunnableKernels()) names.emplace_back(table->isa);
  return names;
}

// One step of a graph without a loss, on values in (-1, 1) that depend on `seed` alone. Every
// output.
Outputs RunGraph(const Graph& graph, Backend& backend, uint32_t seed) {
  auto executor = Executor::Create(graph, backend);
  EXPECT_TRUE(executor.ok()) << executor.status();
  if (!executor.ok()) return {};
  uint64_t state = seed;
  const auto random = [&state] {  // Knuth's MMIX generator: its upper half is random enough, and quick
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  };
  const auto uniform = [&random] { return std::ldexp(static_cast<float>(static_cast<int32_t>(random())), -31); };
  ParameterSet parameters({graph.parameters().begin(), graph.parameters().end()});
  for (int key = 0; key < parameters.size(); ++key) std::ranges::generate(parameters.values(key), uniform);
  std::vector<std::vector<float>> values;
  std::vector<std::vector<int32_t>> ids;
  std::vector<Feed> feeds;
  for (const NodeId id : graph.inputs()) {
    const ValueSpec& spec = graph.node(id).outputs[0];
    if (spec.dtype == DType::kI32) {
      std::vector<int32_t>& fed = ids.emplace_back(static_cast<size_t>(spec.shape.elements()));
      std::ranges::generate(
          fed, [&] { return static_cast<int32_t>(random() % static_cast<uint32_t>(std::get<InputOp>(graph.node(id).op).limit)); });
      feeds.push_back({graph.node(id).name, {DType::kI32, spec.shape, fed.data()}});
    } else {
      std::vector<float>& fed = values.emplace_back(static_cast<size_t>(spec.shape.elements()));
      std::ranges::generate(fed, uniform);
      feeds.push_back({graph.node(id).name, {DType::kF32, spec.shape, fed.data()}});
    }
  }
  ParameterSet gradients({graph.parameters().begin(), graph.parameters().end()});
  const absl::Status status = (*executor)->Run({.training = true}, feeds, parameters, &gradients, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  Outputs outputs;
  for (const auto& [name, value] : (*executor)->graph().outputs()) {
    const ValueSpec& spec = (*executor)->graph().spec(value);
    std::vector<double>& host = outputs[name];
    host.resize(static_cast<size_t>(spec.shape.elements()));
    EXPECT_TRUE((*executor)->Fetch(name, {DType::kF64, spec.shape, host.data()}).ok());
  }
  for (const ParameterResult& result : (*executor)->graph().results()) {
    outputs[graph.parameters()[result.key].name].assign(gradients.values(result.key).begin(), gradients.values(result.key).end());
  }
  return outputs;
}

std::unique_ptr<Backend> CpuInBf16(const std::string& isa, int threads = 1) {
  auto backend = MakeCpuBackend({.threads = threads, .isa = isa, .precision = Precision::kBfloat16});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// An op's graph, and of each output how many products a value of it adds.
struct Case {
  Graph graph;
  std::map<std::string, int64_t> terms;
};

// A sum of n products below 1, added in f32 in any order, is off by a rounding of a part of some
// n / 3 at most (their variance is 1/9) in every step that counts: n * 2^-24 / 3, here with a
// factor of twelve.
double Tolerance(int64_t terms) { return static_cast<double>(terms + 8) * std::ldexp(1.0, -22); }

void ExpectAgreement(const Case& c, const std::string& isa, uint32_t seed) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend(DType::kF64, Precision::kBfloat16);
  const Outputs expected = RunGraph(c.graph, *reference, seed);
  const Outputs found = RunGraph(c.graph, *CpuInBf16(isa, 1 + static_cast<int>(seed) % 2), seed);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const double tolerance = Tolerance(c.terms.at(name));
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found.at(name)[i], values[i], tolerance) << name << " element " << i;
  }
}

Value AddNode(Graph& graph, std::string name, const Op& op, std::vector<Value> inputs, std::vector<ValueSpec> outputs) {
  const Value value{graph.AddNode({name, op, std::move(inputs), std::move(outputs)}), 0};
  graph.SetOutput(std::move(name), value);
  return value;
}

class Random {
 public:
  explicit Random(uint32_t seed) : random_(seed) {}
  int Pick(int low, int high) { return low + static_cast<int>(random_() % static_cast<uint32_t>(high - low + 1)); }

 private:
  std::mt19937 random_;
};

Case ConvolutionCase(Random& random) {
  const bool large = random.Pick(0, 5) == 0;  // more than one block of rows, step and panel
  const int batch = random.Pick(1, large ? 50 : 20);
  const Window window{.size = {random.Pick(1, 4), random.Pick(1, 4)},
                      .stride = {random.Pick(1, 3), random.Pick(1, 3)},
                      .padding = random.Pick(0, 1) == 0 ? Padding::kValid : Padding::kSame};
  const int height = window.size[0] + random.Pick(0, 4);
  const int width = window.size[1] + random.Pick(0, 5);
  const int channels = random.Pick(1, large ? 40 : 10);
  const int filters = random.Pick(1, large ? 50 : 18);
  GraphBuilder builder;
  const Value x = *builder.Input("x", {batch, height, width, channels});
  const Value kernel = *builder.Parameter("kernel", {window.size[0], window.size[1], channels, filters});
  const Value y = *builder.Conv2d("y", x, kernel, window.stride, window.padding);
  EXPECT_TRUE(builder.Output("y", y).ok());
  const ValueSpec x_spec = builder.spec(x);
  const ValueSpec y_spec = builder.spec(y);
  const ValueSpec kernel_spec = builder.spec(kernel);
  const Value dy = *builder.Input("dy", y_spec.shape);
  const int64_t taps = int64_t{window.size[0]} * window.size[1];
  Case c{std::move(builder).Build(), {}};
  AddNode(c.graph, "dx", Conv2dInputGradientOp{window}, {dy, kernel}, {x_spec});
  const Value dw = AddNode(c.graph, "dw", Conv2dWeightGradientOp{window, true}, {x, dy}, {kernel_spec, {.shape = {filters}}});
  c.graph.SetOutput("db", {dw.node, 1});
  c.terms = {{"y", taps * channels}, {"dx", taps * filters}};
  c.terms["dw"] = c.terms["db"] = y_spec.shape.elements() / filters;
  return c;
}

// Of a value in panels; `steps` stand between batch and features where there are any.
Case DenseCase(Random& random) {
  const bool large = random.Pick(0, 3) == 0;
  const int batch = random.Pick(1, 50);
  const int in = random.Pick(1, large ? 200 : 40);
  const int out = random.Pick(1, large ? 150 : 40);
  const Shape shape = random.Pick(0, 2) == 0 ? Shape{batch, random.Pick(1, 3), in} : Shape{batch, in};
  GraphBuilder builder;
  const Value x = *builder.Input("x", shape);
  const Value kernel = *builder.Parameter("kernel", {in, out});
  const Value y = *builder.Dense("y", x, kernel);
  EXPECT_TRUE(builder.Output("y", y).ok());
  const ValueSpec x_spec = builder.spec(x);
  const ValueSpec kernel_spec = builder.spec(kernel);
  const Value dy = *builder.Input("dy", builder.spec(y).shape);
  Case c{std::move(builder).Build(), {}};
  AddNode(c.graph, "dx", DenseInputGradientOp{}, {dy, kernel}, {x_spec});
  const Value dw = AddNode(c.graph, "dw", DenseWeightGradientOp{true}, {x, dy}, {kernel_spec, {.shape = {out}}});
  c.graph.SetOutput("db", {dw.node, 1});
  c.terms = {{"y", in}, {"dx", out}};
  c.terms["dw"] = c.terms["db"] = shape.elements() / in;
  return c;
}

// Of a value in rows, as embeddings leave them.
Case RowsCase(Random& random) {
  const bool large = random.Pick(0, 9) == 0;  // more than one part of the sum, and panel of columns
  constexpr int kIds = 50;
  const Shape ids_shape = {random.Pick(1, 12), random.Pick(1, large ? 110 : 6)};
  const int in = random.Pick(1, large ? 30 : 60);
  const int out = random.Pick(1, large ? 1100 : 60);
  GraphBuilder builder;
  const Value ids = *builder.IntegerInput("ids", ids_shape, kIds);
  const Value x = *builder.Embedding("x", ids, *builder.Parameter("table", {kIds, in}));
  const Value dy = *builder.Embedding("dy", ids, *builder.Parameter("gradients", {kIds, out}));
  const Value kernel = *builder.Parameter("kernel", {in, out});
  const Value y = *builder.Dense("y", x, kernel);
  EXPECT_TRUE(builder.Output("y", y).ok());
  const ValueSpec x_spec = builder.spec(x);
  const ValueSpec kernel_spec = builder.spec(kernel);
  Case c{std::move(builder).Build(), {}};
  AddNode(c.graph, "dx", DenseInputGradientOp{}, {dy, kernel}, {x_spec});
  const Value dw = AddNode(c.graph, "dw", DenseWeightGradientOp{true}, {x, dy}, {kernel_spec, {.shape = {out}}});
  c.graph.SetOutput("db", {dw.node, 1});
  c.terms = {{"y", in}, {"dx", out}};
  // The same few rows come again and again, so sums do not stay near zero.
  c.terms["dw"] = c.terms["db"] = 8 * ids_shape.elements();
  return c;
}

class Bf16Test : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const Bf16Instructions& known : KnownBf16Instructions()) {
      if (known.isa == GetParam() && !known.runnable) {
        GTEST_SKIP() << "this processor, or its kernel, does not run " << known.isa << ": products of bfloat16 by it are not tested";
      }
    }
  }

  void ExpectAgreementOf(Case (*make)(Random&)) {
    constexpr int kCases = kThreadSanitized ? 10 : 100;
    for (int i = 0; i < kCases; ++i) {
      SCOPED_TRACE(testing::Message() << "case " << i);
      Random random(static_cast<uint32_t>(i));
      ExpectAgreement(make(random), GetParam(), static_cast<uint32_t>(i));
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(Bf16Test, ConvolutionsAgreeOverRandomShapes) { ExpectAgreementOf(ConvolutionCase); }
TEST_P(Bf16Test, DenseLayersAgreeOverRandomShapes) { ExpectAgreementOf(DenseCase); }
TEST_P(Bf16Test, DenseLayersOfSequencesAgreeOverRandomShapes) { ExpectAgreementOf(RowsCase); }

// A convolution by size x size windows whose weights lie in (-scale, scale).
Value Conv(Trial& trial, const std::string& name, Value x, int64_t filters, int size, float scale, Padding padding, int stride = 1) {
  const Value kernel = trial.Parameter(name + "/kernel", {size, size, trial.builder().spec(x).shape[3], filters});
  trial.Scale(scale);
  return *trial.builder().Conv2d(name, x, kernel, {stride, stride}, padding);
}

Value Biased(Trial& trial, const std::string& name, Value x) {
  return *trial.builder().Bias(name + "_bias", x, trial.Parameter(name + "/bias", {trial.builder().spec(x).shape[3]}));
}

// A network with every fused epilogue, pools that tile the image and pools that do not.
Trial ImageNetwork(int batch) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  Value y = trial.Input("images", {batch, 13, 14, 3});
  y = *builder.Conv2d("conv1", y, trial.Parameter("conv1/kernel", {3, 3, 3, 20}), {1, 1}, Padding::kSame);
  trial.Scale(0.3f);
  y = *builder.Bias("bias1", y, trial.Parameter("conv1/bias", {20}));
  y = *builder.Activate("tanh1", *builder.MaxPool("pool1", y, {{2, 2}, {2, 2}}), Activation::kTanh);
  y = *builder.Conv2d("conv2", y, trial.Parameter("conv2/kernel", {3, 3, 20, 18}));
  trial.Scale(0.1f);
  y = *builder.Bias("bias2", y, trial.Parameter("conv2/bias", {18}));
  y = *builder.MaxPool("pool2", *builder.Activate("relu2", y, Activation::kRelu), {{3, 3}, {1, 1}});
  y = *builder.Dense("dense", *builder.Flatten("flatten", y), trial.Parameter("dense/kernel", {2 * 3 * 18, 33}));
  trial.Scale(0.1f);
  y = *builder.Activate("tanh3", *builder.Bias("bias3", y, trial.Parameter("dense/bias", {33})), Activation::kTanh);
  EXPECT_TRUE(builder.Output("features", y).ok());
  trial.MeanSquaredLoss(y);
  return trial;
}

// Convolutions with epilogues that read and leave values held in different ways: from f32 to
// bfloat16 and, behind a pool or with an odd number of channels, back.
Trial MixedNetwork(int batch) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const auto conv = [&](const std::string& name, Value x, int64_t filters, Activation activation, bool pool) {
    Value y = Biased(trial, name, Conv(trial, name, x, filters, 3, 0.2f, Padding::kValid));
    if (pool) y = *builder.MaxPool(name + "_pool", y, {{2, 2}, {2, 2}});
    return *builder.Activate(name + "_act", y, activation);
  };
  Value y = conv("conv1", trial.Input("images", {batch, 16, 15, 3}), 12, Activation::kRelu, /*pool=*/false);
  y = conv("conv2", y, 18, Activation::kTanh, /*pool=*/true);
  y = conv("conv3", y, 20, Activation::kTanh, /*pool=*/false);
  y = conv("conv4", y, 7, Activation::kRelu, /*pool=*/false);
  EXPECT_TRUE(builder.Output("features", y).ok());
  trial.MeanSquaredLoss(y);
  return trial;
}

// What is held as bfloat16 up to dense layers: pooled and not, through dropout, Reshape and
// Flatten; a dense layer whose input is whole steps of a product, and others whose input is not.
Trial DenseNetwork(int batch) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const auto conv = [&](const std::string& name, Value x, int64_t filters, bool pool) {
    Value y = Biased(trial, name, Conv(trial, name, x, filters, 3, 0.2f, Padding::kValid));
    if (pool) y = *builder.MaxPool(name + "_pool", y, {{2, 3}, {2, 3}});
    return *builder.Activate(name + "_act", y, Activation::kRelu);
  };
  const auto dense = [&](const std::string& name, Value x, int64_t units) {
    const Value kernel = trial.Parameter(name + "/kernel", {builder.spec(x).shape[-1], units});
    trial.Scale(0.1f);
    return *builder.Activate(name + "_act", *builder.Dense(name, x, kernel), Activation::kRelu);
  };
  const Value images = trial.Input("images", {batch, 11, 12, 3});
  const Value pooled = *builder.Dropout("dropout", conv("conv1", images, 6, /*pool=*/true), 0.25f);
  const Value tall = conv("conv2", images, 32, /*pool=*/false);
  const Value left = dense("dense1", *builder.Flatten("flatten1", pooled), 70);  // 72 features
  const Value right = dense("dense2", *builder.Flatten("flatten2", tall), 70);   // 2880
  const Value steps = dense("dense3", *builder.Reshape("steps", conv("conv3", pooled, 10, false), {batch, 2, 10}), 35);
  Value y = *builder.Add("sum", std::array{left, right, *builder.Flatten("flatten3", steps)});
  y = dense("dense4", *builder.Activate("act4", y, Activation::kTanh), 8);
  EXPECT_TRUE(builder.Output("features", y).ok());
  trial.MeanSquaredLoss(y);
  return trial;
}

// Windows of 3x3 over many channels and of 5x5, which Winograd's tiles compute where pairs are not
// much faster: with padding and without, pooled, with a sum, tiles that reach beyond the image on
// two sides, and numbers of channels that fill no block of a product.
Trial TiledNetwork(int batch) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const auto conv = [&](const std::string& name, Value x, int64_t filters, int size, Padding padding) {
    const float scale = 2.0f / static_cast<float>(size) / std::sqrt(static_cast<float>(builder.spec(x).shape[3]));
    return Biased(trial, name, Conv(trial, name, x, filters, size, scale, padding));
  };
  const auto relu = [&](const std::string& name, Value x) { return *builder.Activate(name, x, Activation::kRelu); };
  Value y = relu("relu1", conv("conv1", trial.Input("images", {batch, 20, 18, 3}), 46, 3, Padding::kSame));
  y = relu("relu2", conv("conv2", y, 38, 3, Padding::kSame));
  y = *builder.MaxPool("pool3", conv("conv3", y, 70, 3, Padding::kValid), {{2, 2}, {2, 2}});
  y = conv("conv4", relu("relu3", y), 64, 3, Padding::kSame);
  const Value shortcut = conv("shortcut", y, 34, 1, Padding::kSame);
  y = *builder.Add("sum", std::array{shortcut, conv("conv5", y, 34, 3, Padding::kSame)});
  y = *builder.Activate("tanh6", conv("conv6", relu("relu5", y), 18, 5, Padding::kSame), Activation::kTanh);
  y = conv("conv7", y, 6, 3, Padding::kSame);
  EXPECT_TRUE(builder.Output("features", y).ok());
  trial.MeanSquaredLoss(y);
  return trial;
}

// Tiles of values in pairs whose results are f32, before a pool that does not tile the image.
Trial UnevenPoolNetwork(int batch) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const auto conv = [&](const std::string& name, Value x, int64_t filters, int size) {
    return Conv(trial, name, x, filters, size, 0.1f, Padding::kSame);
  };
  Value y = conv("conv1", trial.Input("images", {batch, 9, 10, 3}), 32, 3);
  y = *builder.MaxPool("pool2", conv("conv2", y, 20, 5), {{3, 3}, {1, 1}});
  y = *builder.MaxPool("pool3", conv("conv3", conv("conv", y, 34, 1), 38, 3), {{3, 3}, {1, 1}});
  EXPECT_TRUE(builder.Output("features", y).ok());
  trial.MeanSquaredLoss(y);
  return trial;
}

// Convolutions whose results lie in memory as bfloat16, and all that reads such values: batch
// normalisation with relu and without, a sum, activations, a convolution with a stride, one whose
// windows need no padding, an odd number of channels, which stays f32.
class ResidualNetwork {
 public:
  static Trial Make(int batch) {
    ResidualNetwork network;
    GraphBuilder& builder = network.trial_.builder();
    Value x = network.Conv("stem", network.trial_.Input("images", {batch, 9, 10, 3}), 12, 3);
    const Value shortcut = network.Conv("shortcut", x, 34, 1, 2);
    Value y = *builder.Activate("relu1", network.Norm("norm1", x), Activation::kRelu);
    y = network.Norm("norm2", network.Conv("conv1", y, 20, 1, 2));
    y = *builder.Activate("tanh2", *builder.Bias("bias2", network.Conv("conv2", y, 6, 3), network.trial_.Parameter("bias2/bias", {6})),
                          Activation::kTanh);
    y = network.Conv("conv3", y, 34, 3);
    x = *builder.Activate("relu3", *builder.Add("sum", std::array{shortcut, y}), Activation::kRelu);
    y = *builder.Activate("relu4", network.Norm("norm4", network.Conv("conv4", x, 34, 2)), Activation::kRelu);
    x = *builder.Activate("relu5", network.Norm("norm5", *builder.Add("sum2", std::array{x, y})), Activation::kRelu);
    x = network.Norm("norm6", network.Conv("odd", x, 7, 2));
    EXPECT_TRUE(builder.Output("features", x).ok());
    network.trial_.MeanSquaredLoss(x);
    return std::move(network.trial_);
  }

 private:
  Value Conv(const std::string& name, Value x, int64_t filters, int size, int stride = 1) {
    return engine::Conv(trial_, name, x, filters, size, 1.0f / static_cast<float>(size), Padding::kSame, stride);
  }
  Value Norm(const std::string& name, Value x) {
    const Shape channels = {trial_.builder().spec(x).shape[3]};
    const BatchNormParameters parameters = {
        .gamma = trial_.Parameter(name + "/gamma", channels),
        .beta = trial_.Parameter(name + "/beta", channels),
        .moving_mean = trial_.Parameter(name + "/moving_mean", channels, /*trainable=*/false),
        .moving_variance = trial_.Parameter(name + "/moving_variance", channels, /*trainable=*/false),
    };
    return *trial_.builder().BatchNorm(name, x, parameters, 0.9f, 1e-3f);
  }

  Trial trial_;
};

Trial SequenceNetwork(const RecurrentOp& op, int batch) {
  constexpr int kSteps = 5;
  constexpr int kUnits = 21;
  const int64_t width = GateCount(op.cell) * kUnits;
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value ids = trial.Labels("ids", {batch, kSteps}, 11);
  const Value x = *builder.Embedding("embedding", ids, trial.Parameter("table", {11, 18}));
  const Value z = *builder.Dense("project", x, trial.Parameter("kernel", {18, width}));
  trial.Scale(0.2f);
  std::vector<Value> inputs = {z, trial.Parameter("recurrent", {kUnits, width})};
  trial.Scale(0.2f);
  if (op.bias) inputs.push_back(trial.Parameter("bias", {2, width}));
  const Value y = *builder.Recurrent("cell", op, inputs);
  const Value logits = *builder.Dense("softmax", y, trial.Parameter("softmax/kernel", {kUnits, 35}));
  EXPECT_TRUE(builder.Output("logits", logits).ok());
  trial.Loss(*builder.SoftmaxCrossEntropy("loss", logits, trial.Labels("labels", {batch, kSteps}, 35)));
  return trial;
}

std::vector<RecurrentOp> Cells() {
  return {{.cell = Cell::kLstm}, {.cell = Cell::kGru, .bias = true}, {.cell = Cell::kSimpleRnn, .reverse = true}};
}

// Activations differ in their last bits from those of the reference, so that a few of them round to
// the other neighbour: 2^-9 of a value of at most 1.
constexpr double kFlips = 1.0 / 512;

double DifferenceFromReference(const Trial& trial, const std::string& isa) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend(DType::kF64, Precision::kBfloat16);
  const Graph joined = JoinAdds(FuseEpilogues(trial.builder().graph()));  // rounds where cpu does
  const auto expected = trial.RunRewritten(joined, *reference);
  const auto found = trial.Run(*CpuInBf16(isa), /*fuse=*/true);
  EXPECT_TRUE(expected.ok() && found.ok());
  return LargestDifference(*found, *expected);
}

TEST_P(Bf16Test, NetworksOfImagesAgree) {
  for (const int batch : {1, 5, 16, 33}) EXPECT_LE(DifferenceFromReference(ImageNetwork(batch), GetParam()), kFlips) << "batch " << batch;
}

TEST_P(Bf16Test, NetworksOfMixedValuesAgree) {
  for (const int batch : {5, 33}) EXPECT_LE(DifferenceFromReference(MixedNetwork(batch), GetParam()), 4 * kFlips) << "batch " << batch;
}

TEST_P(Bf16Test, NetworksOfDenseLayersBehindConvolutionsAgree) {
  for (const int batch : {1, 5, 33}) EXPECT_LE(DifferenceFromReference(DenseNetwork(batch), GetParam()), 4 * kFlips) << "batch " << batch;
}

// The largest difference in a tensor, as a share of its largest value.
template <typename Found, typename Expected>
double LargestShare(const Found& found, const Expected& expected) {
  double difference = 0.0, largest = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(double{found[i]} - double{expected[i]}));
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  return difference / largest;
}

// What a tile rounds in f32 makes values flip too, and a flip may change the winner of a pool.
constexpr double kFlippedShare = 0.02;

void ExpectSharesAgree(const Trial& trial, const std::string& isa) {
  const std::unique_ptr<Backend> reference = MakeReferenceBackend(DType::kF64, Precision::kBfloat16);
  const auto expected = trial.RunRewritten(JoinAdds(FuseEpilogues(trial.builder().graph())), *reference);
  const auto found = trial.Run(*CpuInBf16(isa), /*fuse=*/true);
  ASSERT_TRUE(expected.ok() && found.ok());
  EXPECT_LE(LargestShare(found->outputs.at("features"), expected->outputs.at("features")), kFlippedShare);
  for (int key = 0; key < expected->grads.size(); ++key) {
    EXPECT_LE(LargestShare(found->grads.values(key), expected->grads.values(key)), kFlippedShare)
        << trial.builder().graph().parameters()[key].name;
  }
}

TEST_P(Bf16Test, NetworksOfManyChannelsAgree) {
  for (const int batch : {1, 16, 33}) {
    SCOPED_TRACE(batch);
    ExpectSharesAgree(TiledNetwork(batch), GetParam());
    ExpectSharesAgree(UnevenPoolNetwork(batch), GetParam());
  }
}

TEST_P(Bf16Test, ResidualNetworksAgree) {
  for (const int batch : {5, 16, 33}) {
    EXPECT_LE(DifferenceFromReference(ResidualNetwork::Make(batch), GetParam()), 5 * kFlips) << "batch " << batch;
  }
}

TEST_P(Bf16Test, RecurrentNetworksAgree) {
  for (const int batch : {1, 20}) {
    for (const RecurrentOp& op : Cells()) {
      EXPECT_LE(DifferenceFromReference(SequenceNetwork(op, batch), GetParam()), kFlips)
          << "batch " << batch << " cell " << static_cast<int>(op.cell);
    }
  }
}

std::vector<std::byte> Bits(const TrialResult& result) {
  std::vector<std::byte> bits;
  const auto add = [&](const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    bits.insert(bits.end(), begin, begin + bytes);
  };
  for (const auto& [name, values] : result.outputs) add(values.data(), values.size() * sizeof(double));
  for (int key = 0; key < result.grads.size(); ++key) add(result.grads.values(key).data(), result.grads.values(key).size_bytes());
  return bits;
}

TEST_P(Bf16Test, BitsAreTheSameInEveryRunAndForAnyThreads) {
  for (const Trial& trial :
       {ImageNetwork(33), DenseNetwork(70), TiledNetwork(33), ResidualNetwork::Make(33), SequenceNetwork(Cells()[0], 20)}) {
    const auto once = trial.Run(*CpuInBf16(GetParam()), /*fuse=*/true);
    ASSERT_TRUE(once.ok());
    for (const int threads : {1, 2, 3, 7}) {
      const auto again = trial.Run(*CpuInBf16(GetParam(), threads), /*fuse=*/true);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(Bits(*again), Bits(*once)) << threads << " threads";
    }
  }
}

TEST_P(Bf16Test, NetworksDifferFromFloat32) {
  const Trial trial = ImageNetwork(16);
  const auto wide = trial.Run(**MakeCpuBackend({.threads = 1}), /*fuse=*/true);
  const auto rounded = trial.Run(*CpuInBf16(GetParam()), /*fuse=*/true);
  ASSERT_TRUE(wide.ok() && rounded.ok());
  EXPECT_GT(LargestDifference(*rounded, *wide), 1e-4);
}

// Operands are rounded as the definition says, in whatever place of a vector they lie.
TEST_P(Bf16Test, OperandsAreRoundedToTheNearestEven) {
  const std::vector<float> values = {1.0f,          1.00390625f, 1.01171875f, -1.00390625f, 1.003907f,
                                     3.3895314e38f, INFINITY,    -INFINITY,   NAN,          0.0f};
  for (size_t place = 0; place < 37; ++place) {
    GraphBuilder builder;
    const Value x = *builder.Input("x", {static_cast<int64_t>(values.size()), 37});
    ASSERT_TRUE(builder.Output("y", *builder.Dense("y", x, *builder.Parameter("kernel", {37, 1}))).ok());
    const Graph graph = std::move(builder).Build();
    const std::unique_ptr<Backend> backend = CpuInBf16(GetParam());
    const auto executor = Executor::Create(graph, *backend);
    ASSERT_TRUE(executor.ok()) << executor.status();
    std::vector<float> fed(values.size() * 37);
    for (size_t i = 0; i < values.size(); ++i) fed[i * 37 + place] = values[i];
    ParameterSet parameters({graph.parameters().begin(), graph.parameters().end()});
    std::ranges::fill(parameters.values(0), 1.0f);
    const std::vector<Feed> feeds = {{"x", {DType::kF32, graph.node(graph.inputs()[0]).outputs[0].shape, fed.data()}}};
    ASSERT_TRUE((*executor)->Run({}, feeds, parameters, nullptr, nullptr).ok());
    std::vector<float> found(values.size());
    ASSERT_TRUE((*executor)->Fetch("y", {DType::kF32, {static_cast<int64_t>(values.size()), 1}, found.data()}).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = RoundToBfloat16(values[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found[i]));
      } else {
        EXPECT_EQ(found[i], expected) << values[i] << " at place " << place;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, Bf16Test, testing::ValuesIn(KnownSets()), [](const auto& info) { return info.param; });

TEST(SelectBf16Set, TakesTheFastestByDefaultAndRefusesWhatTheMachineLacks) {
  EXPECT_STREQ(SelectBf16Set()->isa, RunnableBf16Sets().front().isa);
  for (const Bf16Set& set : RunnableBf16Sets()) EXPECT_EQ(SelectBf16Set(set.isa)->kernels.product, set.kernels.product);
  const absl::Status status = SelectBf16Set("mmx").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'mmx'"), std::string::npos) << status;
}

TEST(SelectBf16Set, Float32RefusesKernelsThatOnlyRound) {
  EXPECT_EQ(MakeCpuBackend({.threads = 1, .isa = "amx"}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace trainyard::engine
