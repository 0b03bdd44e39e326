// Every op on cpu agrees with the reference backend, forward and backward, on each instruction set
// that this machine runs.
#include "trainer/backend/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "trainer/backend/cpu/select_kernels.h"
#include "trainer/backend/cpu/test_kernels.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/ops/builder.h"

namespace trainyard::engine {
namespace {

constexpr int kClasses = 7;

// The results of a step of a graph: every named output, then every parameter's gradient.
using Results = std::vector<std::pair<std::string, std::vector<double>>>;

std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

// A forward graph, and how it is to be run.
struct Network {
  Graph graph;
  ExecutorOptions options;
};

// Feeds every input of the graph with values that depend on its place among the inputs only, and
// runs one training step.
Results RunStep(const Network& network, Backend& backend) {
  auto executor = Executor::Create(network.graph, backend, network.options);
  EXPECT_TRUE(executor.ok()) << executor.status();
  const Graph& graph = (*executor)->graph();
  std::vector<ParameterSpec> specs(graph.parameters().begin(), graph.parameters().end());
  ParameterSet parameters(specs);
  for (int key = 0; key < parameters.size(); ++key) {
    const std::vector<float> values = RandomFloats(specs[key].shape.elements(), 100 + key, 0.3f);
    std::copy(values.begin(), values.end(), parameters.values(key).begin());
  }
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<int32_t>> integers;
  std::vector<Feed> feeds;
  for (const NodeId id : graph.inputs()) {
    const ValueSpec& spec = graph.node(id).outputs[0];
    const auto index = static_cast<uint32_t>(feeds.size());
    if (spec.dtype == DType::kI32) {
      std::vector<int32_t>& values = integers.emplace_back();
      for (int64_t i = 0; i < spec.shape.elements(); ++i) values.push_back(static_cast<int32_t>((i * 5 + index) % kClasses));
      feeds.push_back({graph.node(id).name, {DType::kI32, spec.shape, values.data()}});
    } else {
      floats.push_back(RandomFloats(spec.shape.elements(), index + 1, 1.0f));
      feeds.push_back({graph.node(id).name, {DType::kF32, spec.shape, floats.back().data()}});
    }
  }
  ParameterSet gradients(specs);
  const StepContext step{.seed = 3, .step = 5, .worker = 1, .training = true};
  const absl::Status status = (*executor)->Run(step, feeds, parameters, &gradients, nullptr);
  EXPECT_TRUE(status.ok()) << status;

  Results results;
  for (const auto& [name, value] : graph.outputs()) {
    const ValueSpec& spec = graph.spec(value);
    std::vector<double> host(spec.shape.elements());
    const absl::Status fetched = (*executor)->Fetch(name, {DType::kF64, spec.shape, host.data()});
    EXPECT_TRUE(fetched.ok()) << fetched;
    results.emplace_back(name, host);
  }
  for (int key = 0; key < gradients.size(); ++key) {
    results.emplace_back(specs[key].name, std::vector<double>(gradients.values(key).begin(), gradients.values(key).end()));
  }
  return results;
}

void ExpectClose(const Results& found, const Results& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const auto& [name, values] = found[i];
    const std::vector<double>& wanted = expected[i].second;
    ASSERT_EQ(values.size(), wanted.size()) << name;
    double scale = 1e-4;
    for (double value : wanted) scale = std::max(scale, std::abs(value));
    for (size_t e = 0; e < values.size(); ++e) {
      ASSERT_LE(std::abs(values[e] - wanted[e]), tolerance * scale)
          << name << " element " << e << ": " << values[e] << " for " << wanted[e];
    }
  }
}

void ExpectSameBits(const Results& found, const Results& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(std::memcmp(found[i].second.data(), expected[i].second.data(), found[i].second.size() * sizeof(double)), 0) << found[i].first;
  }
}

std::unique_ptr<Backend> Cpu(const std::string& isa, int threads = 1) {
  auto backend = MakeCpuBackend({.threads = threads, .isa = isa});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

// The scores of a body, and behind them the loss and all gradients, the images' too.
Network WithLoss(GraphBuilder builder, Value scores, bool fuse) {
  const Shape& shape = builder.spec(scores).shape;
  const Value flat = *builder.Flatten("flat", scores);
  const Value kernel = *builder.Parameter("head/kernel", {builder.spec(flat).shape[1], kClasses});
  const Value logits = *builder.Dense("head", flat, kernel);
  const Value labels = *builder.IntegerInput("labels", {shape[0]}, kClasses);
  const Value loss = *builder.SoftmaxCrossEntropy("loss", logits, labels);
  const Value correct = *builder.CorrectCount("correct", logits, labels);
  EXPECT_TRUE(builder.Output("loss", loss).ok());
  EXPECT_TRUE(builder.Output("logits", logits).ok());
  EXPECT_TRUE(builder.Output("correct", correct).ok());
  builder.Loss(loss);
  return {std::move(builder).Build(), {.fuse = fuse, .gradients = {.inputs = {"images"}}}};
}

struct ConvCase {
  int batch, height, width, channels, filters, kernel, stride;
  Padding padding;
  Activation activation;
  std::optional<Window> pool;
};

Network ConvGraph(const ConvCase& c, bool fuse) {
  GraphBuilder builder;
  const Value images = *builder.Input("images", {c.batch, c.height, c.width, c.channels});
  const Value kernel = *builder.Parameter("conv/kernel", {c.kernel, c.kernel, c.channels, c.filters});
  const Value bias = *builder.Parameter("conv/bias", {c.filters});
  Value y = *builder.Conv2d("conv", images, kernel, {c.stride, c.stride}, c.padding);
  y = *builder.Bias("biased", y, bias);
  if (c.pool.has_value()) y = *builder.MaxPool("pool", y, *c.pool);
  if (c.activation != Activation::kIdentity) y = *builder.Activate("active", y, c.activation);
  EXPECT_TRUE(builder.Output("features", y).ok());
  return WithLoss(std::move(builder), y, fuse);
}

class CpuBackendTest : public testing::TestWithParam<std::string> {
 protected:
  void ExpectAgreement(const Network& network, double tolerance = 2e-5) {
    const std::unique_ptr<Backend> reference = MakeReferenceBackend(DType::kF64);
    const std::unique_ptr<Backend> cpu = Cpu(GetParam());
    ExpectClose(RunStep(network, *cpu), RunStep(network, *reference), tolerance);
  }
};

TEST_P(CpuBackendTest, ConvolutionsAgreeOverBatchesAndChannels) {
  const Window pool{.size = {2, 2}, .stride = {2, 2}};
  int index = 0;
  for (const int batch : {1, 5, 16, 17, 128}) {
    for (const int channels : {1, 3, 20, 50}) {
      const int filters = std::array{3, 20, 50, 1}[(channels + batch) % 4];
      const int side = batch > 17 ? 6 : 9;
      const ConvCase c{batch,
                       side,
                       side + index % 3,
                       channels,
                       filters,
                       3,
                       1 + index % 2,
                       index % 3 == 0 ? Padding::kSame : Padding::kValid,
                       static_cast<Activation>(index % kActivations),
                       index % 4 == 1 ? std::optional(pool) : std::nullopt};
      SCOPED_TRACE(testing::Message() << "batch " << batch << " channels " << channels << " filters " << filters);
      ExpectAgreement(ConvGraph(c, /*fuse=*/true));
      if (testing::Test::HasFatalFailure()) return;
      ++index;
    }
  }
}

TEST_P(CpuBackendTest, ConvolutionsAgreeOverWindowsStridesAndPaddings) {
  std::mt19937 random(11);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  for (int round = 0; round < 24; ++round) {
    ConvCase c;
    c.batch = pick(1, 40);
    c.kernel = pick(1, 5);
    c.stride = pick(1, 3);
    c.height = pick(c.kernel, c.kernel + 7);
    c.width = pick(c.kernel, c.kernel + 9);
    c.channels = pick(1, 9);
    c.filters = pick(1, 18);
    c.padding = pick(0, 1) == 0 ? Padding::kValid : Padding::kSame;
    c.activation = static_cast<Activation>(pick(0, kActivations - 1));
    SCOPED_TRACE(testing::Message() << "round " << round << ": batch " << c.batch << ", " << c.height << "x" << c.width << "x" << c.channels
                                    << " to " << c.filters << ", kernel " << c.kernel << " stride " << c.stride
                                    << (c.padding == Padding::kSame ? " same" : " valid"));
    ExpectAgreement(ConvGraph(c, round % 2 == 0));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// The shapes of bottleneck blocks: either side the narrower one, whole vectors of channels and
// nearly. Also strides, images of one and of many blocks of pixels, and a last panel of a few
// samples.
std::vector<ConvCase> PointConvolutions() {
  std::vector<ConvCase> cases;
  for (const int batch : {1, 5, 9, 16, 17, 128}) {
    for (const auto& [channels, filters] : {std::pair{16, 64}, {64, 16}, {64, 80}, {80, 77}, {65, 64}, {16, 1}}) {
      const int side = batch == 128 ? 3 : 7;
      const int stride = 1 + static_cast<int>(cases.size()) % 2;
      cases.push_back({batch, side, side + 2, channels, filters, 1, stride, Padding::kSame,
                       static_cast<Activation>(cases.size() % kActivations), std::nullopt});
    }
  }
  return cases;
}

TEST_P(CpuBackendTest, PointConvolutionsAgree) {
  for (const ConvCase& c : FewIfSlow(PointConvolutions())) {
    SCOPED_TRACE(testing::Message() << "batch " << c.batch << ", " << c.channels << " to " << c.filters << " stride " << c.stride);
    ExpectAgreement(ConvGraph(c, /*fuse=*/true), 5e-5);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(CpuBackendTest, WindowsLargerThanTheImageAgree) {
  for (const int batch : {1, 5, 20}) {
    for (const int stride : {1, 2}) {
      for (const int side : {1, 2, 3}) {
        SCOPED_TRACE(testing::Message() << "batch " << batch << " stride " << stride << " side " << side);
        ExpectAgreement(ConvGraph({batch, side, side, 20, 9, 4, stride, Padding::kSame, Activation::kTanh, std::nullopt}, /*fuse=*/true));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CpuBackendTest, FusedPoolsOfAnyWindowAgree) {
  for (const Window& pool :
       {Window{{2, 2}, {2, 2}}, Window{{3, 2}, {3, 2}}, Window{{3, 3}, {2, 2}}, Window{{3, 3}, {2, 2}, Padding::kSame}}) {
    for (const Padding padding : {Padding::kValid, Padding::kSame}) {
      for (const bool fuse : {false, true}) {
        SCOPED_TRACE(testing::Message() << pool.size[0] << "x" << pool.size[1] << " stride " << pool.stride[0] << (fuse ? " fused" : ""));
        ExpectAgreement(ConvGraph({18, 9, 11, 4, 6, 3, 1, padding, Activation::kTanh, pool}, fuse));
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// 3x3 and 5x5 windows of stride 1 over many channels: winograd_conv2d.h.
std::vector<ConvCase> WinogradConvolutions() {
  const Window pool{.size = {2, 2}, .stride = {2, 2}};
  std::vector<ConvCase> cases;
  for (const Padding padding : {Padding::kSame, Padding::kValid}) {
    cases.push_back({17, 8, 8, 16, 16, 3, 1, padding, Activation::kRelu, std::nullopt});
    cases.push_back({33, 7, 9, 17, 21, 3, 1, padding, Activation::kTanh, std::nullopt});  // half tiles, channels of no whole vector
    cases.push_back({16, 4, 5, 64, 40, 3, 1, padding, Activation::kIdentity, std::nullopt});
    cases.push_back({16, 13, 20, 16, 130, 3, 1, padding, Activation::kRelu, std::nullopt});  // tiles in several parts
    cases.push_back({20, 9, 11, 32, 24, 3, 1, padding, Activation::kTanh, pool});            // a row and a column outside all windows
    cases.push_back({20, 10, 8, 24, 16, 3, 1, padding, Activation::kRelu, pool});
    cases.push_back({17, 14, 14, 17, 21, 3, 1, padding, Activation::kTanh, std::nullopt});  // 4 x 4 results to a tile
    cases.push_back({16, 9, 10, 64, 40, 3, 1, padding, Activation::kIdentity, std::nullopt});
    cases.push_back({20, 18, 14, 24, 16, 3, 1, padding, Activation::kRelu, pool});
    cases.push_back({20, 13, 17, 16, 48, 3, 1, padding, Activation::kTanh, pool});
    cases.push_back({20, 9, 9, 16, 16, 3, 1, padding, Activation::kRelu, Window{{3, 3}, {3, 3}}});
    cases.push_back({20, 9, 9, 16, 16, 3, 1, padding, Activation::kRelu, Window{{3, 3}, {2, 2}}});
    cases.push_back({17, 8, 8, 16, 16, 5, 1, padding, Activation::kRelu, std::nullopt});
    cases.push_back({33, 7, 9, 17, 21, 5, 1, padding, Activation::kTanh, std::nullopt});
    cases.push_back({1, 9, 6, 16, 32, 5, 1, padding, Activation::kTanh, std::nullopt});
    cases.push_back({16, 6, 13, 48, 40, 5, 1, padding, Activation::kIdentity, std::nullopt});
    cases.push_back({20, 11, 13, 24, 32, 5, 1, padding, Activation::kTanh, pool});
    cases.push_back({20, 14, 12, 32, 24, 5, 1, padding, Activation::kRelu, pool});
    cases.push_back({20, 9, 9, 16, 16, 5, 1, padding, Activation::kRelu, Window{{3, 3}, {2, 2}}});
    cases.push_back({17, 9, 10, 16, 24, 5, 2, padding, Activation::kRelu, std::nullopt});  // phases of 3x3 of a 5x5 kernel
    cases.push_back({17, 11, 10, 20, 16, 6, 2, padding, Activation::kRelu, std::nullopt});
  }
  for (const int side : {1, 2, 3}) cases.push_back({16, side, side + 1, 16, 16, 5, 1, Padding::kSame, Activation::kRelu, std::nullopt});
  cases.push_back({16, 3, 3, 16, 16, 3, 1, Padding::kSame, Activation::kRelu, std::nullopt});
  cases.push_back({16, 1, 1, 16, 16, 3, 1, Padding::kSame, Activation::kRelu, std::nullopt});
  return cases;
}

TEST_P(CpuBackendTest, WinogradConvolutionsAgree) {
  for (const ConvCase& c : FewIfSlow(WinogradConvolutions())) {
    SCOPED_TRACE(testing::Message() << "image " << c.height << "x" << c.width << " channels " << c.channels << " filters " << c.filters
                                    << " kernel " << c.kernel << " stride " << c.stride);
    ExpectAgreement(ConvGraph(c, /*fuse=*/true), 5e-5);
  }
}

// Of two lists of numbers: the root of the mean squared difference, by that of the second.
double RelativeError(const std::vector<double>& found, const std::vector<double>& exact) {
  double difference = 0;
  double whole = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += (found[i] - exact[i]) * (found[i] - exact[i]);
    whole += exact[i] * exact[i];
  }
  return std::sqrt(difference / whole);
}

// Gradients get the rounding of the scores before them too.
TEST_P(CpuBackendTest, WinogradSumsRoundLittle) {
  struct Path {
    const char* name;
    int side, kernel;
    double most, most_of_gradients;
  };
  for (const Path& path :
       {Path{"F(4x4, 3x3)", 12, 3, 1.5e-6, 1e-5}, Path{"F(2x2, 3x3)", 6, 3, 4e-7, 4e-6}, Path{"F(2x2, 5x5)", 8, 5, 3e-6, 2e-5}}) {
    const Network network =
        ConvGraph({32, path.side, path.side, 32, 48, path.kernel, 1, Padding::kSame, Activation::kIdentity, std::nullopt}, /*fuse=*/true);
    const Results exact = RunStep(network, *MakeReferenceBackend(DType::kF64));
    const Results found = RunStep(network, *Cpu(GetParam()));
    int compared = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      const auto& [name, values] = exact[i];
      if (name != "features" && name != "gradients/images" && name != "conv/kernel") continue;
      EXPECT_LT(RelativeError(found[i].second, values), name == "features" ? path.most : path.most_of_gradients)
          << name << " by " << path.name;
      ++compared;
    }
    EXPECT_EQ(compared, 3);
  }
}

TEST_P(CpuBackendTest, LeNetAgrees) {
  for (const int batch : FewIfSlow(std::vector{5, 32})) {
    GraphBuilder builder;
    const Window pool{.size = {2, 2}, .stride = {2, 2}};
    Value y = *builder.Input("images", {batch, 28, 28, 1});
    y = *builder.Conv2d("conv1", y, *builder.Parameter("conv1/kernel", {5, 5, 1, 20}));
    y = *builder.Bias("bias1", y, *builder.Parameter("conv1/bias", {20}));
    y = *builder.MaxPool("pool1", *builder.Activate("tanh1", y, Activation::kTanh), pool);
    y = *builder.Conv2d("conv2", y, *builder.Parameter("conv2/kernel", {5, 5, 20, 50}));
    y = *builder.Bias("bias2", y, *builder.Parameter("conv2/bias", {50}));
    y = *builder.MaxPool("pool2", *builder.Activate("tanh2", y, Activation::kTanh), pool);
    y = *builder.Dense("dense1", *builder.Flatten("flatten", y), *builder.Parameter("dense1/kernel", {800, 500}));
    y = *builder.Activate("tanh3", *builder.Bias("bias3", y, *builder.Parameter("dense1/bias", {500})), Activation::kTanh);
    ExpectAgreement(WithLoss(std::move(builder), y, /*fuse=*/true), 5e-5);
  }
}

TEST_P(CpuBackendTest, DenseLayersAgreeOverBatchesAndWidths) {
  for (const int batch : {1, 5, 8, 16, 17, 128}) {
    for (const auto& [in, out] : {std::pair{1, 1}, {3, 20}, {50, 33}, {33, 50}, {100, 65}}) {
      SCOPED_TRACE(testing::Message() << "batch " << batch << ", " << in << " to " << out);
      GraphBuilder builder;
      const Value x = *builder.Input("images", {batch, in});
      Value y = *builder.Dense("dense", x, *builder.Parameter("dense/kernel", {in, out}));
      y = *builder.Bias("biased", y, *builder.Parameter("dense/bias", {out}));
      y = *builder.Activate("active", y, Activation::kSigmoid);
      EXPECT_TRUE(builder.Output("features", y).ok());
      ExpectAgreement(WithLoss(std::move(builder), y, /*fuse=*/true));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(CpuBackendTest, TimeDistributedDenseSoftmaxAndSquaredErrorAgree) {
  for (const int batch : {1, 17}) {
    GraphBuilder builder;
    const Value x = *builder.Input("images", {batch, 3, 10});
    Value y = *builder.Dense("dense", x, *builder.Parameter("dense/kernel", {10, 6}));
    y = *builder.Bias("biased", y, *builder.Parameter("dense/bias", {6}));
    y = *builder.Softmax("softmax", y);
    const Value target = *builder.Input("target", {batch, 3, 6});
    const Value loss = *builder.MeanSquaredError("loss", y, target);
    EXPECT_TRUE(builder.Output("loss", loss).ok());
    EXPECT_TRUE(builder.Output("y", y).ok());
    builder.Loss(loss);
    ExpectAgreement({std::move(builder).Build(), {.fuse = false, .gradients = {.inputs = {"images"}}}});
  }
}

TEST_P(CpuBackendTest, ResidualsAveragePoolsAndActivationsAgree) {
  for (const int batch : {1, 5, 16, 33}) {
    for (const Window& pool : {Window{{2, 2}, {2, 2}}, Window{{3, 3}, {2, 2}, Padding::kSame}, Window{{2, 3}, {1, 1}}, Window{{6, 7}}}) {
      GraphBuilder builder;
      const Value x = *builder.Input("images", {batch, 6, 7, 3});
      const Value a = *builder.Activate("relu", x, Activation::kRelu);
      const Value b = *builder.Activate("sigmoid", x, Activation::kSigmoid);
      const Value c = *builder.Activate("tanh", x, Activation::kTanh);
      const Value sum = *builder.Add("sum", std::array{a, b, c});
      const Value y = *builder.AvgPool("pool", sum, pool);
      EXPECT_TRUE(builder.Output("sum", sum).ok());
      ExpectAgreement(WithLoss(std::move(builder), y, /*fuse=*/false));
    }
  }
}

// A residual block with pre-activation, more than one block of pixels, and a penalty on its
// kernels.
Network NormalisedBlock(int batch, int height, bool fuse) {
  GraphBuilder builder;
  const auto norm = [&](const std::string& name, Value x, bool relu) {
    const int64_t channels = builder.spec(x).shape[-1];
    const BatchNormParameters parameters = {.gamma = *builder.Parameter(name + "/gamma", {channels}),
                                            .beta = *builder.Parameter(name + "/beta", {channels}),
                                            .moving_mean = *builder.Parameter(name + "/mean", {channels}, /*trainable=*/false),
                                            .moving_variance = *builder.Parameter(name + "/variance", {channels}, /*trainable=*/false)};
    const Value y = *builder.BatchNorm(name, x, parameters, 0.9f, 1e-3f);
    EXPECT_TRUE(builder.NextValue(parameters.moving_mean, {y.node, 1}).ok());
    EXPECT_TRUE(builder.NextValue(parameters.moving_variance, {y.node, 2}).ok());
    return relu ? *builder.Activate(name + "/relu", y, Activation::kRelu) : y;
  };
  const Value images = *builder.Input("images", {batch, height, 19, 3});
  const Value first = *builder.Parameter("first", {3, 3, 3, 21});
  const Value second = *builder.Parameter("second", {1, 1, 21, 3});
  Value y = norm("norm1", images, /*relu=*/true);
  y = norm("norm2", *builder.Conv2d("conv1", y, first, {1, 1}, Padding::kSame), /*relu=*/true);
  y = norm("norm3", *builder.Conv2d("conv2", y, second), /*relu=*/false);
  const Value sum = *builder.Add("sum", std::array{images, y});
  EXPECT_TRUE(builder.Output("sum", sum).ok());
  const Value target = *builder.Input("target", builder.spec(sum).shape);
  const Value error = *builder.MeanSquaredError("error", sum, target);
  const Value loss = *builder.L2Penalty("loss", error, std::array{first, second}, 0.01f);
  EXPECT_TRUE(builder.Output("loss", loss).ok());
  builder.Loss(loss);
  return {std::move(builder).Build(), {.fuse = fuse, .gradients = {.inputs = {"images"}}}};
}

TEST_P(CpuBackendTest, BatchNormsResidualsAndPenaltiesAgree) {
  for (const int batch : {1, 5, 16, 35}) {
    for (const int height : {1, 6, 17}) {
      if (IsSlow() && batch * height > 100) continue;
      for (const bool fuse : {false, true}) {
        SCOPED_TRACE(testing::Message() << "batch " << batch << " height " << height << (fuse ? " fused" : ""));
        ExpectAgreement(NormalisedBlock(batch, height, fuse), 2e-4);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// Sums of squares of values that are all near 1,000 would lose the variance to rounding.
TEST_P(CpuBackendTest, VarianceFarFromZeroIsTheReferences) {
  GraphBuilder builder;
  const Value x = *builder.Input("images", {20, 9, 9, 5});
  const Value offset = *builder.Parameter("offset", {5});
  const Value y = *builder.BatchNorm("norm", *builder.Bias("bias", x, offset),
                                     {.gamma = *builder.Parameter("gamma", {5}),
                                      .beta = *builder.Parameter("beta", {5}),
                                      .moving_mean = *builder.Parameter("mean", {5}, /*trainable=*/false),
                                      .moving_variance = *builder.Parameter("variance", {5}, /*trainable=*/false)},
                                     0.9f, 1e-3f);
  ASSERT_TRUE(builder.Output("variance", {y.node, 2}).ok());
  const Graph graph = std::move(builder).Build();
  const std::unique_ptr<Backend> backend = Cpu(GetParam());
  auto executor = Executor::Create(graph, *backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  ParameterSet parameters({graph.parameters().begin(), graph.parameters().end()});
  std::ranges::fill(parameters.values(0), 1000.0f);
  std::vector<float> values(20 * 9 * 9 * 5);
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i / 5 % 2) - 0.5f;  // variance 1/4 in every channel
    squares += values[i] * values[i];
  }
  ASSERT_NEAR(squares / static_cast<double>(values.size()), 0.25, 1e-9);
  const Feed feed{"images", {DType::kF32, {20, 9, 9, 5}, values.data()}};
  ASSERT_TRUE((*executor)->Run({}, std::span(&feed, 1), parameters, nullptr, nullptr).ok());
  std::vector<float> variance(5);
  ASSERT_TRUE((*executor)->Fetch("variance", {DType::kF32, {5}, variance.data()}).ok());
  for (const float value : variance) EXPECT_NEAR(value, 0.1f * 0.25f, 1e-6f);
}

TEST_P(CpuBackendTest, BitsOfStatisticsDoNotDependOnTheNumberOfThreads) {
  const Network network = NormalisedBlock(35, 33, /*fuse=*/true);
  const Results one = RunStep(network, *Cpu(GetParam(), 1));
  for (const int threads : {2, 3}) ExpectSameBits(RunStep(network, *Cpu(GetParam(), threads)), one);
}

TEST_P(CpuBackendTest, DropoutDropsTheSameElementsAsTheReference) {
  for (const int batch : {5, 40}) {
    GraphBuilder builder;
    const Value x = *builder.Input("images", {batch, 5, 5, 3});
    const Value y = *builder.Dropout("dropout", x, 0.4f);
    EXPECT_TRUE(builder.Output("y", y).ok());
    ExpectAgreement(WithLoss(std::move(builder), y, /*fuse=*/false));
  }
}

TEST_P(CpuBackendTest, BitsDoNotDependOnTheNumberOfThreads) {
  const std::vector<ConvCase> cases = {
      ConvCase{70, 12, 12, 5, 20, 5, 1, Padding::kValid, Activation::kTanh, Window{{2, 2}, {2, 2}}},
      ConvCase{33, 9, 9, 7, 13, 3, 2, Padding::kSame, Activation::kRelu, std::nullopt},
      ConvCase{33, 9, 9, 20, 18, 3, 1, Padding::kSame, Activation::kRelu, Window{{2, 2}, {2, 2}}},
      ConvCase{40, 9, 11, 20, 50, 5, 1, Padding::kValid, Activation::kTanh, Window{{2, 2}, {2, 2}}},
      ConvCase{33, 9, 8, 33, 18, 5, 1, Padding::kSame, Activation::kRelu, std::nullopt},
      ConvCase{70, 15, 15, 40, 32, 3, 1, Padding::kSame, Activation::kRelu, std::nullopt},
      ConvCase{18, 9, 9, 60, 45, 5, 2, Padding::kSame, Activation::kRelu, std::nullopt},  // threads share the packing
      ConvCase{33, 9, 9, 64, 80, 1, 1, Padding::kSame, Activation::kRelu, std::nullopt},
      ConvCase{33, 9, 9, 90, 64, 1, 2, Padding::kSame, Activation::kIdentity, std::nullopt}};
  for (const ConvCase& c : cases) {
    const Network network = ConvGraph(c, /*fuse=*/true);
    const Results one = RunStep(network, *Cpu(GetParam(), 1));
    for (const int threads : {1, 2, 3}) ExpectSameBits(RunStep(network, *Cpu(GetParam(), threads)), one);
  }
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, CpuBackendTest, testing::ValuesIn(RunnableNames()),
                         [](const auto& info) { return info.param; });

TEST(MakeCpuBackend, RefusesAnUnknownInstructionSetByName) {
  const auto backend = MakeCpuBackend({.isa = "mmx"});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(backend.status().message().find("'mmx'"), absl::string_view::npos);
  EXPECT_NE(backend.status().message().find(RunnableKernels().front()->isa), absl::string_view::npos);
}

}  // namespace
}  // namespace trainyard::engine
