#include "trainer/model/layers/kinds.h"

#include <algorithm>
#include <array>

namespace trainyard::engine {
namespace {

// In the order in which errors list them.
constexpr std::array kKinds{
    LayerKind{"conv2d", ReadConv2d},
    LayerKind{"maxPool2d", ReadMaxPool2d},
    LayerKind{"avgPool2d", ReadAvgPool2d},
    LayerKind{"globalAveragePool2d", ReadGlobalAveragePool2d},
    LayerKind{"batchNormalization", ReadBatchNormalization},
    LayerKind{"dense", ReadDense},
    LayerKind{"flatten", ReadFlatten},
    LayerKind{"reshape", ReadReshape},
    LayerKind{"add", ReadAdd},
    LayerKind{"activation", ReadActivationLayer},
    LayerKind{"dropout", ReadDropout},
    LayerKind{"embedding", ReadEmbedding},
    LayerKind{"lstm", ReadLstm},
    LayerKind{"gru", ReadGru},
    LayerKind{"simpleRnn", ReadSimpleRnn},
    LayerKind{"bidirectional", ReadBidirectional},
};

}  // namespace

std::span<const LayerKind> LayerKinds() { return kKinds; }

const LayerKind* FindLayerKind(std::string_view name) {
  const auto* kind = std::ranges::find(kKinds, name, &LayerKind::name);
  return kind == kKinds.end() ? nullptr : kind;
}

}  // namespace trainyard::engine
