// The operations: one struct of attributes for each op, and Op, the variant of them all. Data only:
// shape, FLOP and gradient rules are in ops/, kernels in backend/. Comments give inputs → outputs;
// [..] are shapes, N the samples of the batch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "trainer/graph/activation.h"
#include "trainer/graph/cell.h"

namespace trainyard::engine {

std::string_view ActivationName(Activation activation);

// kValid: only whole windows. kSame: ceil(extent / stride) outputs; of the padding, the half
// rounded down comes before (as in TensorFlow).
enum class Padding : uint8_t { kValid, kSame };

// A window sliding over height (0) and width (1).
struct Window {
  std::array<int32_t, 2> size = {1, 1};
  std::array<int32_t, 2> stride = {1, 1};
  Padding padding = Padding::kValid;
  friend bool operator==(const Window&, const Window&) = default;
};

// Work on the result of a product before it is stored, in this order: add a bias per channel,
// normalise, add, max-pool, activate. Max-pooling commutes with every Activation; pooling first
// evaluates fewer of them.
struct Epilogue {
  bool bias = false;
  // Only of a Conv2d that a backend has fused for inference: batch normalisation by the moving
  // statistics, with this epsilon. Inputs gamma, beta, mean and variance stand behind the bias.
  std::optional<float> batch_norm = std::nullopt;
  // Only of a Conv2d that a backend has fused: the last input, of the output's shape, is added.
  // Never with max_pool.
  bool add = false;
  std::optional<Window> max_pool = std::nullopt;
  // Only of a Conv2d that a backend has fused: outputs 1 and 2 are the mean and the biased variance
  // [D] of what it stores, over all axes but the last; only while training. Never with max_pool.
  bool moments = false;
  // Only of a Conv2d whose backend holds values in 16 bits (backend/narrow_values.h): so is the
  // gradient before the pool.
  bool narrow_before_pool = false;
  // Only of a Conv2d whose backend asks for it: where no gradient flows to the convolution's input,
  // the pool's gradient is part of the weights' (PooledConv2dWeightGradientOp).
  bool unpool_in_weights = false;
  Activation activation = Activation::kIdentity;
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

// Sources
// -------------------------------------------------------------------------------------------------------------------------------
// → the value fed under the node's name. Feeds of u8 are multiplied by u8_scale, f32 and i32 are
// taken as they are. With limit > 0 an integer feed must lie in [0, limit): labels, tokens.
struct InputOp {
  float u8_scale = 1.0f;
  int32_t limit = 0;
};
// → parameter `key`, row-major.
struct ParameterOp {
  int key = 0;
};
// → state `index` of the graph (Graph::states): [N, units], as the last step left it.
struct StateOp {
  int index = 0;
};
// → StepContext::loss_scale, a scalar: the gradient of the loss, where backward begins.
struct LossScaleOp {};

// Products
// ------------------------------------------------------------------------------------------------------------------------------
// x [N, .., C], w [C, D], bias [D] with epilogue.bias → y [N, .., D]. epilogue.max_pool is never
// set.
struct DenseOp {
  Epilogue epilogue = {};
};
// dz [N, .., D], w [C, D] → dx [N, .., C]
struct DenseInputGradientOp {};
// x [N, .., C], dz [N, .., D] → dw [C, D] and, with bias, db [D]: sums over samples (and everything
// between).
struct DenseWeightGradientOp {
  bool bias = false;
};
// x [N, H, W, C], w [Kh, Kw, C, D], bias [D] with epilogue.bias → y [N, Ho, Wo, D] and, with
// epilogue.max_pool, argmax as MaxPoolOp's.
struct Conv2dOp {
  // Batch normalisation of x by the moving statistics, at least 0 with relu.
  struct Normalise {
    float epsilon = 1e-3f;
    bool relu = false;
  };
  Window window = {};
  Epilogue epilogue = {};
  // Only of a 1x1 window of stride 1 that a backend has fused for inference: done first. Inputs
  // gamma, beta, mean and variance stand last, but for the one that the epilogue adds.
  std::optional<Normalise> normalise = std::nullopt;
};
// dz [N, Hz, Wz, D] (before the epilogue), w [Kh, Kw, C, D] → dx [N, H, W, C]
struct Conv2dInputGradientOp {
  Window window = {};
};
// x [N, H, W, C], dz [N, Hz, Wz, D] → dw [Kh, Kw, C, D] and, with bias, db [D]
struct Conv2dWeightGradientOp {
  Window window = {};
  bool bias = false;
};

// Element by element
// --------------------------------------------------------------------------------------------------------------------
// x [N, .., D], bias [D] → y [N, .., D]
struct BiasOp {};
// dy [N, .., D] → db [D]
struct BiasGradientOp {};
// x → y. Never kIdentity, here and in the gradient: that is IdentityOp.
struct ActivationOp {
  Activation activation = Activation::kIdentity;
};
// dy, y (the activation's output) → dx
struct ActivationGradientOp {
  Activation activation = Activation::kIdentity;
};
// Two or more of one shape → their sum, added from the first to the last.
struct AddOp {};
// x → x with another shape. Axis 0 of a batched value stays, so the layout of every backend stays:
// no kernel, both share memory.
struct ReshapeOp {};
// x → x, sharing memory like ReshapeOp.
struct IdentityOp {};
// x → x, with ValueSpec::row_major or ValueSpec::narrow turned over. Only backends add it.
struct RelayoutOp {};
// Two or more of one shape but for the last extent → [.., the sum of the last extents], one after
// the other.
struct ConcatOp {};
// x [.., C] → y [.., D]: the D features from `begin` on.
struct SliceOp {
  int64_t begin = 0;
};
// x → y: an element is 0 with probability `rate`, else x / (1 - rate); only while training, else y
// = x. The zeros are a function of (seed, step, worker, stream, element) alone: see ops/philox.h.
// Its gradient is the same op, with the same stream, on dy.
struct DropoutOp {
  float rate = 0.0f;
  uint32_t stream = 0;
};

// Pooling
// -------------------------------------------------------------------------------------------------------------------------------
// x [N, H, W, C] → y [N, Ho, Wo, C], argmax u8 of the same shape.
// argmax is the place of the maximum: row * Kw + column from the corner of its window, which may be
// padding. The first of equal values wins. Padding never wins.
struct MaxPoolOp {
  Window window = {};
};
// dy [N, Ho, Wo, C], argmax, and y after pool and activation (not for identity) → dx [N, H, W, C].
// dx is dy times the activation's derivative, added at the place of the maximum.
struct MaxPoolGradientOp {
  Window window = {};
  Activation activation = Activation::kIdentity;
};
// MaxPoolGradientOp and, of the dz that it makes, Conv2dWeightGradientOp, without dz in memory.
// x [N, H, W, C], dy [N, Ho, Wo, D], argmax, and y (not for identity) → dw [Kh, Kw, C, D] and, with
// bias, db [D]
struct PooledConv2dWeightGradientOp {
  Window window = {};
  bool bias = false;
  Window pool = {};
  Activation activation = Activation::kIdentity;
};
// x [N, H, W, C] → y [N, Ho, Wo, C], the mean over the window's elements that lie inside x.
struct AvgPoolOp {
  Window window = {};
};
// dy [N, Ho, Wo, C] → dx [N, H, W, C]
struct AvgPoolGradientOp {
  Window window = {};
};

// Normalisation
// -------------------------------------------------------------------------------------------------------------------------
// x [N, .., C], gamma [C], beta [C], moving mean [C], moving variance [C]
// → y [N, .., C], next moving mean, next moving variance, mean, 1 / sqrt(variance + epsilon), [C]
// each y = gamma (x - mean) / sqrt(variance + epsilon) + beta, with relu cut off below 0. While
// training, mean and (biased) variance are those of the batch over all axes but the last. Then
// next moving = momentum * moving + (1 - momentum) * batch. Otherwise mean and variance are the
// moving ones, which stay.
struct BatchNormOp {
  float momentum = 0.99f;
  float epsilon = 1e-3f;
  bool relu = false;
  // Only where a backend has fused: inputs 5 and 6 are the mean and the variance of the batch.
  bool moments = false;
};
// dy, x, gamma, beta, mean [C], 1 / sqrt(variance + epsilon) [C], with `add` a term of x's shape
// → dx, dgamma [C], dbeta [C]; through the statistics of the batch too. The term is added to dx.
struct BatchNormGradientOp {
  bool relu = false;
  bool add = false;
};

// Sequences: [N, T, C], T steps of N samples
// -------------------------------------------------------------------------------------------- ids
// i32 [N, ..], table [V, D] → y [N, .., D]
// y is row ids[..] of the table.
struct EmbeddingOp {};
// ids i32 [N, ..], dy [N, .., D] → dtable [V, D]: row v is the sum of dy over the places where ids
// is v.
struct EmbeddingGradientOp {};
std::string_view CellName(Cell cell);
// z [N, T, G U] (the input's products of all steps, with G = 1, 4, 3), recurrent kernel [U, G U],
// with `bias` (GRU only) bias [2, 3U], with `initial` h [N, U] and (LSTM) c [N, U]
// → y [N, T, U], last h [N, U]; LSTM: gates [N, T, 4U], last c [N, U], all c [N, T, U]; GRU: gates
// [N, T, 4U] h and c are those before the first step, zeros without `initial`. With `reverse` steps
// run from the last to the first; outputs stay at their step.
struct RecurrentOp {
  Cell cell = Cell::kLstm;
  Activation activation = Activation::kTanh;  // simple RNN: of its output
  bool bias = false;
  bool initial = false;
  bool reverse = false;
};
// with `sequence` dy [N, T, U], with `last` d(last h) [N, U]; recurrent kernel; y; LSTM: gates, all
// c; GRU: gates; with `initial` h and (LSTM) c → dz [N, T, G U], d(recurrent kernel), with `bias`
// dbias Nothing flows back to the initial h and c.
struct RecurrentGradientOp {
  RecurrentOp forward;
  bool sequence = false;
  bool last = false;
};

// Losses and metrics
// --------------------------------------------------------------------------------------------------------------------
// x [N, .., K] → y, softmax over the last axis.
struct SoftmaxOp {};
// dy, y → dx
struct SoftmaxGradientOp {};
// logits [N, .., K], labels i32 [N, ..] → loss [] (mean over all labels), probabilities [N, .., K]
struct SoftmaxCrossEntropyOp {};
// probabilities, labels, dloss [] → dlogits
struct SoftmaxCrossEntropyGradientOp {};
// scores [N, .., K], labels i32 [N, ..] → how many labels have the highest score (the first of
// equal ones), as f32 []
struct CorrectCountOp {};
// Only the cpu backend adds the next three (backend/cpu/join_cross_entropy.h): a dense layer and
// the cross-entropy of what it leaves, without logits in memory.
// x [N, .., C], w [C, K], bias [K] with `bias`, labels i32 [N, ..] → loss [] as
// SoftmaxCrossEntropyOp's; terms [N, .., K] and factors [N, ..], whose product is dlogits / dloss;
// correct [] as CorrectCountOp's
struct DenseCrossEntropyOp {
  bool bias = false;
};
// terms, factors, w, dloss [] → dx
struct DenseCrossEntropyInputGradientOp {};
// x, terms, factors, dloss [] → dw and, with bias, db
struct DenseCrossEntropyWeightGradientOp {
  bool bias = false;
};
// prediction, target of one shape → loss [], the mean of the squared differences over all elements
struct MeanSquaredErrorOp {};
// prediction, target, dloss [] → dprediction
struct MeanSquaredErrorGradientOp {};
// loss [], weights of any shapes → loss + l2 * the sum of all weights' squares, []
struct L2PenaltyOp {
  float l2 = 0.0f;
};
// weights, dloss [] → 2 * l2 * dloss * weights
struct L2PenaltyGradientOp {
  float l2 = 0.0f;
};

using Op = std::variant<InputOp, ParameterOp, StateOp, LossScaleOp, RelayoutOp, ConcatOp, SliceOp, EmbeddingOp, EmbeddingGradientOp,
                        RecurrentOp, RecurrentGradientOp, DenseOp, DenseInputGradientOp, DenseWeightGradientOp, Conv2dOp,
                        Conv2dInputGradientOp, Conv2dWeightGradientOp, PooledConv2dWeightGradientOp, BiasOp, BiasGradientOp, ActivationOp,
                        ActivationGradientOp, AddOp, ReshapeOp, IdentityOp, DropoutOp, MaxPoolOp, MaxPoolGradientOp, AvgPoolOp,
                        AvgPoolGradientOp, SoftmaxOp, SoftmaxGradientOp, SoftmaxCrossEntropyOp, SoftmaxCrossEntropyGradientOp,
                        CorrectCountOp, DenseCrossEntropyOp, DenseCrossEntropyInputGradientOp, DenseCrossEntropyWeightGradientOp,
                        MeanSquaredErrorOp, MeanSquaredErrorGradientOp, BatchNormOp, BatchNormGradientOp, L2PenaltyOp, L2PenaltyGradientOp>;

// Ops without a kernel. Sources: the value is put in place before a step. Aliases: the value is
// that of input 0, in the same memory.
template <typename T>
inline constexpr bool kIsSource = std::is_same_v<T, InputOp> || std::is_same_v<T, ParameterOp> || std::is_same_v<T, StateOp>;
template <typename T>
inline constexpr bool kIsAlias = std::is_same_v<T, ReshapeOp> || std::is_same_v<T, IdentityOp>;
// Ops that the cpu backend alone makes of others, and runs.
template <typename T>
inline constexpr bool kIsOfCpu = std::is_same_v<T, DenseCrossEntropyOp> || std::is_same_v<T, DenseCrossEntropyInputGradientOp> ||
                                 std::is_same_v<T, DenseCrossEntropyWeightGradientOp> || std::is_same_v<T, PooledConv2dWeightGradientOp>;
bool IsSource(const Op& op);
bool IsAlias(const Op& op);
// "Conv2d": the struct's name without "Op".
std::string_view OpName(const Op& op);
// The attributes in words, empty where there are none: "5x5 stride 1x1 valid + bias + max-pool 2x2
// stride 2x2 valid + tanh".
std::string OpText(const Op& op);

}  // namespace trainyard::engine
