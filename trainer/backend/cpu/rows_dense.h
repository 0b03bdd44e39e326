// Dense layers over values in rows (ValueSpec::row_major): products over all samples and steps.
#pragma once

#include "trainer/backend/cpu/device.h"

namespace trainyard::engine {

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const DenseOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const DenseInputGradientOp& op);
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const DenseWeightGradientOp& op);

}  // namespace trainyard::engine
