// Kernels of graphs for inference (RewriteOptions::inference): values in rows, so that outputs are
// the vector lanes and one example costs what one example needs. Each result's sum has one order,
// whatever the batch size and the threads. Other ops have the kernels of every graph (device.h).
#pragma once

#include "trainer/backend/cpu/device.h"

namespace trainyard::engine {

// The forward graph for inference, of a graph that FuseEpilogues has made or not: all batched
// values in rows, no dropout; batch normalisation, the sum of two branches and an activation behind
// it within the convolution before.
Graph RewriteForInference(const Graph& forward);

// inference_conv2d.cc
CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const Conv2dOp& op);
// inference_dense.cc
CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const DenseOp& op);
// inference_pool.cc
CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const MaxPoolOp& op);
CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const AvgPoolOp& op);
CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const BatchNormOp& op);
// recurrent.cc
CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const RecurrentOp& op);

}  // namespace trainyard::engine
