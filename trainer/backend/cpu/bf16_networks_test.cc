// Networks whose products have bfloat16 operands agree with the reference backend that rounds the
// same operands, on each instruction set that this machine runs.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer/backend/cpu/join_add.h"
#include "trainer/backend/cpu/test_bf16.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

using Bf16NetworksTest = Bf16Test;

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

TEST_P(Bf16NetworksTest, NetworksOfImagesAgree) {
  for (const int batch : {1, 5, 16, 33}) EXPECT_LE(DifferenceFromReference(ImageNetwork(batch), GetParam()), kFlips) << "batch " << batch;
}

TEST_P(Bf16NetworksTest, NetworksOfMixedValuesAgree) {
  for (const int batch : {5, 33}) EXPECT_LE(DifferenceFromReference(MixedNetwork(batch), GetParam()), 4 * kFlips) << "batch " << batch;
}

TEST_P(Bf16NetworksTest, NetworksOfDenseLayersBehindConvolutionsAgree) {
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
  const Graph joined = JoinAdds(FuseEpilogues(trial.builder().graph()));
  const auto expected = trial.RunRewritten(joined, *reference);
  const auto found = trial.Run(*CpuInBf16(isa), /*fuse=*/true);
  ASSERT_TRUE(expected.ok() && found.ok());
  EXPECT_LE(LargestShare(found->outputs.at("features"), expected->outputs.at("features")), kFlippedShare);
  // Whole numbers of tiles round about as much as the operands: more winners of pools and signs
  // change, but the gradients are about as far from those of exact operands.
  const bool whole = SelectBf16Set(isa)->kernels.winograd_whole.product != nullptr;
  const auto exact = trial.RunRewritten(joined, *MakeReferenceBackend(DType::kF64));
  ASSERT_TRUE(exact.ok());
  for (int key = 0; key < expected->grads.size(); ++key) {
    SCOPED_TRACE(trial.builder().graph().parameters()[key].name);
    if (!whole) {
      EXPECT_LE(LargestShare(found->grads.values(key), expected->grads.values(key)), kFlippedShare);
    } else {
      const double rounded = ShareOff(expected->grads.values(key), exact->grads.values(key));
      EXPECT_LE(ShareOff(found->grads.values(key), exact->grads.values(key)), 1.5 * rounded + 0.01);
    }
  }
}

TEST_P(Bf16NetworksTest, NetworksOfManyChannelsAgree) {
  for (const int batch : {1, 16, 33}) {
    SCOPED_TRACE(batch);
    ExpectSharesAgree(TiledNetwork(batch), GetParam());
    ExpectSharesAgree(UnevenPoolNetwork(batch), GetParam());
  }
}

TEST_P(Bf16NetworksTest, ResidualNetworksAgree) {
  for (const int batch : {5, 16, 33}) {
    EXPECT_LE(DifferenceFromReference(ResidualNetwork::Make(batch), GetParam()), 5 * kFlips) << "batch " << batch;
  }
}

TEST_P(Bf16NetworksTest, RecurrentNetworksAgree) {
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

TEST_P(Bf16NetworksTest, BitsAreTheSameInEveryRunAndForAnyThreads) {
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

TEST_P(Bf16NetworksTest, NetworksDifferFromFloat32) {
  const Trial trial = ImageNetwork(16);
  const auto wide = trial.Run(**MakeCpuBackend({.threads = 1}), /*fuse=*/true);
  const auto rounded = trial.Run(*CpuInBf16(GetParam()), /*fuse=*/true);
  ASSERT_TRUE(wide.ok() && rounded.ok());
  EXPECT_GT(LargestDifference(*rounded, *wide), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(EachInstructionSet, Bf16NetworksTest, testing::ValuesIn(KnownBf16Sets()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace trainyard::engine
