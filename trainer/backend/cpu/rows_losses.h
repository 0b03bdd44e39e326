// Softmax, losses and metrics of values in rows (ValueSpec::row_major).
#pragma once

#include "trainer/backend/cpu/device.h"

namespace trainyard::engine {

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxGradientOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyGradientOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const CorrectCountOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const MeanSquaredErrorOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const MeanSquaredErrorGradientOp& op);

}  // namespace trainyard::engine
