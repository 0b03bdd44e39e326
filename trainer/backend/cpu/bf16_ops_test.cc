// Ops of bfloat16 operands agree over random shapes with the reference backend that rounds the same
// operands, on each instruction set that this machine runs.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "tests/support/sanitized.h"
#include "trainer/backend/cpu/test_bf16.h"
#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/ops/builder.h"
#include "trainer/ops/recurrent.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

using Outputs = std::map<std::string, std::vector<double>>;

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

class Bf16OpsTest : public Bf16Test {
 protected:
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

TEST_P(Bf16OpsTest, ConvolutionsAgreeOverRandomShapes) { ExpectAgreementOf(ConvolutionCase); }
TEST_P(Bf16OpsTest, DenseLayersAgreeOverRandomShapes) { ExpectAgreementOf(DenseCase); }
TEST_P(Bf16OpsTest, DenseLayersOfSequencesAgreeOverRandomShapes) { ExpectAgreementOf(RowsCase); }

// Operands are rounded as the definition says, in whatever place of a vector they lie.
TEST_P(Bf16OpsTest, OperandsAreRoundedToTheNearestEven) {
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

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, Bf16OpsTest, testing::ValuesIn(KnownBf16Sets()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainyard::engine
