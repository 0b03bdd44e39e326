#include "trainer/onnx/file_layer.h"

namespace trainyard::engine {

std::string_view WeightsKindName(WeightsKind kind) {
  switch (kind) {
    case WeightsKind::kConv2d:
      return "conv2d";
    case WeightsKind::kDense:
      return "dense";
    case WeightsKind::kBatchNormalization:
      return "batchNormalization";
    case WeightsKind::kEmbedding:
      return "embedding";
    case WeightsKind::kSimpleRnn:
      return "simpleRnn";
    case WeightsKind::kLstm:
      return "lstm";
    case WeightsKind::kGru:
      return "gru";
  }
  return "";
}

WeightsKind WeightsKindOf(Cell cell) {
  if (cell == Cell::kLstm) return WeightsKind::kLstm;
  return cell == Cell::kGru ? WeightsKind::kGru : WeightsKind::kSimpleRnn;
}

}  // namespace trainyard::engine
