#include "trainer/ops/describe.h"

#include <gtest/gtest.h>

#include "trainer/backend/executor.h"
#include "trainer/backend/reference/reference_backend.h"
#include "trainer/ops/builder.h"
#include "trainer/ops/fuse.h"

namespace trainyard::engine {
namespace {

TEST(DescribeGraph, ShowsNodesParametersAndTotals) {
  GraphBuilder builder;
  const Value x = *builder.Input("image", {128, 28, 28, 1}, 1.0f / 255.0f);
  Value h = *builder.Conv2d("conv1", x, *builder.Parameter("conv1/kernel", {5, 5, 1, 20}));
  h = *builder.Bias("conv1/bias_add", h, *builder.Parameter("conv1/bias", {20}));
  h = *builder.Activate("conv1/tanh", h, Activation::kTanh);
  h = *builder.MaxPool("pool1", h, {{2, 2}, {2, 2}});
  h = *builder.Flatten("flat", h);
  h = *builder.Dense("dense", h, *builder.Parameter("dense/kernel", {2880, 10}, /*trainable=*/false));
  ASSERT_TRUE(builder.Output("logits", h).ok());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto executor = Executor::Create(FuseEpilogues(std::move(builder).Build()), *backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_EQ(DescribeGraph((*executor)->graph(), (*executor)->plan()),
            R"(NODE   OP                                                                         OUTPUT              MFLOP
image  Input                                                                      [128, 28, 28, 1]    0.000
conv1  Conv2d 5x5 stride 1x1 valid + bias + max-pool 2x2 stride 2x2 valid + tanh  [128, 12, 12, 20]  77.046
flat   Reshape                                                                    [128, 2880]         0.000
dense  Dense                                                                      [128, 10]           7.373

KEY  PARAMETER                     SHAPE          ELEMENTS
0    conv1/kernel                  [5, 5, 1, 20]       500
1    conv1/bias                    [20]                 20
2    dense/kernel (not trainable)  [2880, 10]        28800

parameters  29320 elements, 0.11 MiB
one step    7 nodes, 84.419 MFLOP
memory      1.79 MiB in one arena (1.79 MiB without sharing)
)");
}

}  // namespace
}  // namespace trainyard::engine
