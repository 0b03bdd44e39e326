#include "trainer/ops/rules.h"

#include <fmt/format.h>

#include "trainer/graph/overloaded.h"
#include "trainer/ops/batch_norm.h"
#include "trainer/ops/concat.h"
#include "trainer/ops/conv2d.h"
#include "trainer/ops/dense.h"
#include "trainer/ops/dense_cross_entropy.h"
#include "trainer/ops/dropout.h"
#include "trainer/ops/elementwise.h"
#include "trainer/ops/embedding.h"
#include "trainer/ops/l2_penalty.h"
#include "trainer/ops/mean_squared_error.h"
#include "trainer/ops/pool.h"
#include "trainer/ops/recurrent.h"
#include "trainer/ops/softmax.h"

namespace trainyard::engine {

int64_t Flops(const Graph& graph, NodeId id) {
  const NodeView node(graph, id);
  return std::visit(Overloaded{
                        [](const LossScaleOp&) { return int64_t{0}; },
                        [](const RelayoutOp&) { return int64_t{0}; },
                        [](const ConcatOp&) { return int64_t{0}; },
                        [](const SliceOp&) { return int64_t{0}; },
                        [](const EmbeddingOp&) { return int64_t{0}; },
                        [&]<typename T>(const T& op) {
                          if constexpr (kIsSource<T> || kIsAlias<T>) {
                            return int64_t{0};
                          } else {
                            return OpFlops(op, node);
                          }
                        },
                    },
                    graph.node(id).op);
}

int64_t BytesMoved(const Graph& graph, NodeId id) {
  const auto bytes = [](const ValueSpec& spec) { return spec.shape.elements() * ElementBytes(spec); };
  int64_t all = 0;
  for (const Value& input : graph.node(id).inputs) all += bytes(graph.spec(input));
  for (const ValueSpec& output : graph.node(id).outputs) all += bytes(output);
  return all;
}

absl::Status AddOpGradient(const Op& op, GradientContext& context) {
  return std::visit(
      [&](const auto& o) -> absl::Status {
        if constexpr (requires { AddGradient(o, context); }) {
          AddGradient(o, context);
          return absl::OkStatus();
        }
        return absl::UnimplementedError(fmt::format("op {} has no gradient", OpName(op)));
      },
      op);
}

std::optional<int> AliasedInput(const Op& op) {
  if (IsAlias(op)) return 0;
  return std::nullopt;
}

bool MayRunInPlace(const Op& op, int i) {
  return std::visit(Overloaded{
                        [&](const BiasOp&) { return i == 0; },
                        [](const ActivationOp&) { return true; },
                        [](const ActivationGradientOp&) { return true; },
                        [](const AddOp&) { return true; },
                        [](const DropoutOp&) { return true; },
                        [](const SoftmaxOp&) { return true; },
                        [](const SoftmaxGradientOp&) { return true; },
                        [&](const SoftmaxCrossEntropyGradientOp&) { return i == 0; },
                        [&](const MeanSquaredErrorGradientOp&) { return i < 2; },
                        [&](const BatchNormOp&) { return i == 0; },
                        [&](const BatchNormGradientOp&) { return i < 2 || i == 6; },
                        [](const auto&) { return false; },
                    },
                    op);
}

bool FillsRowsOfIds(const Op& op) { return std::holds_alternative<EmbeddingGradientOp>(op); }

}  // namespace trainyard::engine
