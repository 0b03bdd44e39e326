#include "trainer/graph/op.h"

#include <fmt/format.h>

#include "trainer/graph/overloaded.h"

namespace trainyard::engine {
namespace {

std::string Text(const Window& window) {
  return fmt::format("{}x{} stride {}x{} {}", window.size[0], window.size[1], window.stride[0], window.stride[1],
                     window.padding == Padding::kSame ? "same" : "valid");
}

std::string Text(const Epilogue& epilogue) {
  std::string text;
  if (epilogue.bias) text += " + bias";
  if (epilogue.batch_norm) text += " + batch-norm";
  if (epilogue.add) text += " + add";
  if (epilogue.max_pool) text += " + max-pool " + Text(*epilogue.max_pool);
  if (epilogue.activation != Activation::kIdentity) text += fmt::format(" + {}", ActivationName(epilogue.activation));
  if (epilogue.moments) text += " + moments";
  return text;
}

std::string Text(const std::optional<Conv2dOp::Normalise>& normalise) {
  if (!normalise) return "";
  return normalise->relu ? " after batch-norm + relu" : " after batch-norm";
}

std::string Text(const RecurrentOp& op) {
  return fmt::format("{}{}{}", CellName(op.cell), op.initial ? " with state" : "", op.reverse ? " reversed" : "");
}

std::string_view WithBias(bool bias) { return bias ? "with bias" : ""; }

}  // namespace

std::string_view ActivationName(Activation activation) {
  std::string_view name;
  VisitActivation(activation, [&]<Activation kActivation>() { name = ActivationRow<kActivation>::kName; });
  return name;
}

std::string_view CellName(Cell cell) {
  switch (cell) {
    case Cell::kSimpleRnn:
      return "simple RNN";
    case Cell::kLstm:
      return "LSTM";
    case Cell::kGru:
      return "GRU";
  }
  return "?";
}

bool IsSource(const Op& op) {
  return std::visit([]<typename T>(const T&) { return kIsSource<T>; }, op);
}

bool IsAlias(const Op& op) {
  return std::visit([]<typename T>(const T&) { return kIsAlias<T>; }, op);
}

std::string_view OpName(const Op& op) {
  struct Names {
    std::string_view operator()(const InputOp&) { return "Input"; }
    std::string_view operator()(const ParameterOp&) { return "Parameter"; }
    std::string_view operator()(const StateOp&) { return "State"; }
    std::string_view operator()(const LossScaleOp&) { return "LossScale"; }
    std::string_view operator()(const RelayoutOp&) { return "Relayout"; }
    std::string_view operator()(const ConcatOp&) { return "Concat"; }
    std::string_view operator()(const SliceOp&) { return "Slice"; }
    std::string_view operator()(const EmbeddingOp&) { return "Embedding"; }
    std::string_view operator()(const EmbeddingGradientOp&) { return "EmbeddingGradient"; }
    std::string_view operator()(const RecurrentOp&) { return "Recurrent"; }
    std::string_view operator()(const RecurrentGradientOp&) { return "RecurrentGradient"; }
    std::string_view operator()(const DenseOp&) { return "Dense"; }
    std::string_view operator()(const DenseInputGradientOp&) { return "DenseInputGradient"; }
    std::string_view operator()(const DenseWeightGradientOp&) { return "DenseWeightGradient"; }
    std::string_view operator()(const Conv2dOp&) { return "Conv2d"; }
    std::string_view operator()(const Conv2dInputGradientOp&) { return "Conv2dInputGradient"; }
    std::string_view operator()(const Conv2dWeightGradientOp&) { return "Conv2dWeightGradient"; }
    std::string_view operator()(const BiasOp&) { return "Bias"; }
    std::string_view operator()(const BiasGradientOp&) { return "BiasGradient"; }
    std::string_view operator()(const ActivationOp&) { return "Activation"; }
    std::string_view operator()(const ActivationGradientOp&) { return "ActivationGradient"; }
    std::string_view operator()(const AddOp&) { return "Add"; }
    std::string_view operator()(const ReshapeOp&) { return "Reshape"; }
    std::string_view operator()(const IdentityOp&) { return "Identity"; }
    std::string_view operator()(const DropoutOp&) { return "Dropout"; }
    std::string_view operator()(const MaxPoolOp&) { return "MaxPool"; }
    std::string_view operator()(const MaxPoolGradientOp&) { return "MaxPoolGradient"; }
    std::string_view operator()(const PooledConv2dWeightGradientOp&) { return "PooledConv2dWeightGradient"; }
    std::string_view operator()(const AvgPoolOp&) { return "AvgPool"; }
    std::string_view operator()(const AvgPoolGradientOp&) { return "AvgPoolGradient"; }
    std::string_view operator()(const BatchNormOp&) { return "BatchNorm"; }
    std::string_view operator()(const BatchNormGradientOp&) { return "BatchNormGradient"; }
    std::string_view operator()(const SoftmaxOp&) { return "Softmax"; }
    std::string_view operator()(const SoftmaxGradientOp&) { return "SoftmaxGradient"; }
    std::string_view operator()(const SoftmaxCrossEntropyOp&) { return "SoftmaxCrossEntropy"; }
    std::string_view operator()(const SoftmaxCrossEntropyGradientOp&) { return "SoftmaxCrossEntropyGradient"; }
    std::string_view operator()(const CorrectCountOp&) { return "CorrectCount"; }
    std::string_view operator()(const DenseCrossEntropyOp&) { return "DenseCrossEntropy"; }
    std::string_view operator()(const DenseCrossEntropyInputGradientOp&) { return "DenseCrossEntropyInputGradient"; }
    std::string_view operator()(const DenseCrossEntropyWeightGradientOp&) { return "DenseCrossEntropyWeightGradient"; }
    std::string_view operator()(const MeanSquaredErrorOp&) { return "MeanSquaredError"; }
    std::string_view operator()(const MeanSquaredErrorGradientOp&) { return "MeanSquaredErrorGradient"; }
    std::string_view operator()(const L2PenaltyOp&) { return "L2Penalty"; }
    std::string_view operator()(const L2PenaltyGradientOp&) { return "L2PenaltyGradient"; }
  };
  return std::visit(Names(), op);
}

std::string OpText(const Op& op) {
  return std::visit(
      Overloaded{
          [](const ParameterOp& o) { return fmt::format("key {}", o.key); },
          [](const StateOp& o) { return fmt::format("index {}", o.index); },
          [](const SliceOp& o) { return fmt::format("from {}", o.begin); },
          [](const RecurrentOp& o) { return Text(o); },
          [](const RecurrentGradientOp& o) { return Text(o.forward); },
          [](const DenseOp& o) {
            const std::string text = Text(o.epilogue);
            return text.empty() ? text : text.substr(3);
          },
          [](const DenseWeightGradientOp& o) { return std::string(WithBias(o.bias)); },
          [](const Conv2dOp& o) { return Text(o.window) + Text(o.normalise) + Text(o.epilogue); },
          [](const Conv2dInputGradientOp& o) { return Text(o.window); },
          [](const Conv2dWeightGradientOp& o) { return fmt::format("{}{}", Text(o.window), o.bias ? " with bias" : ""); },
          [](const ActivationOp& o) { return std::string(ActivationName(o.activation)); },
          [](const ActivationGradientOp& o) { return std::string(ActivationName(o.activation)); },
          [](const DropoutOp& o) { return fmt::format("rate {}", o.rate); },
          [](const MaxPoolOp& o) { return Text(o.window); },
          [](const MaxPoolGradientOp& o) { return Text(o.window) + Text(Epilogue{.activation = o.activation}); },
          [](const PooledConv2dWeightGradientOp& o) {
            return Text(o.window) + Text(Epilogue{.bias = o.bias, .max_pool = o.pool, .activation = o.activation});
          },
          [](const AvgPoolOp& o) { return Text(o.window); },
          [](const AvgPoolGradientOp& o) { return Text(o.window); },
          [](const BatchNormOp& o) { return fmt::format("momentum {} epsilon {}{}", o.momentum, o.epsilon, o.relu ? " + relu" : ""); },
          [](const BatchNormGradientOp& o) {
            return fmt::format("{}{}{}", o.relu ? "relu" : "", o.relu && o.add ? " + " : "", o.add ? "add" : "");
          },
          [](const DenseCrossEntropyOp& o) { return std::string(WithBias(o.bias)); },
          [](const DenseCrossEntropyWeightGradientOp& o) { return std::string(WithBias(o.bias)); },
          [](const L2PenaltyOp& o) { return fmt::format("l2 {}", o.l2); },
          [](const L2PenaltyGradientOp& o) { return fmt::format("l2 {}", o.l2); },
          [](const auto&) { return std::string(); },
      },
      op);
}

}  // namespace trainyard::engine
