// The reference kernels, one function for each op and real type T (float or double). All values are
// row-major.
#pragma once

#include <functional>

#include "trainer/backend/backend.h"
#include "trainer/graph/node_view.h"
#include "trainer/graph/window.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine::reference {

// One run of a node.
using RunFunction = std::function<void(const KernelContext&)>;

// constant.cc, bias.cc, activation.cc …: each makes the function that runs `node`, whose op is the
// first argument.
template <typename T>
RunFunction MakeRun(const LossScaleOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const DenseOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const DenseInputGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const DenseWeightGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const Conv2dOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const Conv2dInputGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const Conv2dWeightGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const BiasOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const BiasGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const ActivationOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const ActivationGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const AddOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const DropoutOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const MaxPoolOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const MaxPoolGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const AvgPoolOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const AvgPoolGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const BatchNormOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const BatchNormGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const SoftmaxOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const SoftmaxGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const SoftmaxCrossEntropyOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const SoftmaxCrossEntropyGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const CorrectCountOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const MeanSquaredErrorOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const MeanSquaredErrorGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const L2PenaltyOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const L2PenaltyGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const RelayoutOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const ConcatOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const SliceOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const EmbeddingOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const EmbeddingGradientOp& op, const NodeView& node);
template <typename T>
RunFunction MakeRun(const RecurrentOp& op, const NodeView& node, Precision precision);
template <typename T>
RunFunction MakeRun(const RecurrentGradientOp& op, const NodeView& node, Precision precision);

// Parts that several ops share.

// f(x)
template <typename T>
T Activate(Activation activation, T x);
// f'(x) by y = f(x)
template <typename T>
T ActivationSlope(Activation activation, T y);
// y[row, c] = x[row, c] + bias[c]; x and y may be the same.
template <typename T>
void AddBias(int64_t rows, int64_t channels, const T* x, const T* bias, T* y);
// db[c] = the sum of dy[row, c] over rows
template <typename T>
void SumRows(int64_t rows, int64_t channels, const T* dy, T* db);
// argmax may be null.
template <typename T>
void MaxPool(const Window& window, const Shape& x_shape, const T* x, T* y, uint8_t* argmax);

// The geometry of a window that the builder has accepted.
WindowGeometry Placed(const Window& window, const Shape& input);

}  // namespace trainyard::engine::reference
