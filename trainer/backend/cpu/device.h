// The device of all kernel objects of the cpu backend, and the functions that make kernel objects
// from nodes. There is one function for each op, by family of files.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/float28_kernel.h"
#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/weight_store.h"
#include "trainer/base/thread_pool.h"
#include "trainer/graph/node_view.h"

namespace trainyard::engine {

// Owned by the backend, outlives its kernels.
struct CpuDevice {
  const KernelTable& kernels;
  ThreadPool& pool;
  WeightStore& weights;               // of inference
  Float28Product float28 = nullptr;   // of inference; null: weights are read as they are
  const Bf16Kernels* bf16 = nullptr;  // for products of operands that are rounded to bfloat16; null: products are of f32
};

using CompiledKernel = absl::StatusOr<std::unique_ptr<Kernel>>;

// dense.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseInputGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseWeightGradientOp& op);
// conv2d.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const Conv2dOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const Conv2dInputGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const Conv2dWeightGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const PooledConv2dWeightGradientOp& op);
// elementwise.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const LossScaleOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BiasOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BiasGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const ActivationOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const ActivationGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const AddOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DropoutOp& op);
// pool.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MaxPoolOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MaxPoolGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const AvgPoolOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const AvgPoolGradientOp& op);
// batch_norm.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BatchNormOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BatchNormGradientOp& op);
// recurrent.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const RecurrentOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const RecurrentGradientOp& op);
// sequence.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const EmbeddingOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const EmbeddingGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const RelayoutOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const ConcatOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SliceOp& op);
// losses.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const CorrectCountOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MeanSquaredErrorOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MeanSquaredErrorGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const L2PenaltyOp& op);
// dense_cross_entropy.cc
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseCrossEntropyOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseCrossEntropyInputGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DenseCrossEntropyWeightGradientOp& op);
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const L2PenaltyGradientOp& op);

// The bias's gradient, shared by three ops: db[c] = sum over pixels and lanes of dy.
void RunBiasGradient(CpuDevice& device, const float* dy, float* db, int64_t pixels, int64_t channels);

}  // namespace trainyard::engine
